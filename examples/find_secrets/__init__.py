"""Secrets planted in mail, in web tokens and in a backup, and found again by every way that vyre-opt has to search.

forms              what a secret looks like, and how one is drawn
corpus             files of any size with secrets in them, and the list of what is where
independent_check  the same secrets by Python's own email, base64 and re
ways               Scanner and vyre-scan, a row each
wheel              a word list in the files of the project's own wheel
"""

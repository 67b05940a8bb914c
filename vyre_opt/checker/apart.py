"""Whether two accesses of one buffer can touch one element from different workgroups, or different lanes.

Two arguments, on the sums that the indices are:

    the element tells the workgroup   equal multiples of the ids, and all else differs by less than a multiple
    the sets are apart                the ranges do not overlap, or a divisor of all multiples does not divide the difference

Indices are equal modulo 2^bits of their type; where they are not known to be their sums, these are compared so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .elements import elements, lane_conditions
from .terms import LANE, Form, Terms, int_type
from .walk import Access

__all__ = ["in_one_lane", "in_one_workgroup"]

MOST_ELEMENTS = 1 << 16
"""Most elements that are listed with the lanes which touch them."""


def in_one_workgroup(terms: Terms, one: Access, other: Access) -> bool:
    """Whether no element is touched by `one` in a workgroup and by `other` in another one."""
    if "other" in (one.kind, other.kind) or len(one.at) != len(other.at):
        return False
    ids = {atom: terms.counts["xyz".index(str(terms.keys[atom][1]))] for atom in _group_ids(terms)}
    open_ids = {atom for atom, count in ids.items() if count > 1}
    for dimension in range(len(one.at)):
        widths = (one.width, other.width) if dimension == len(one.at) - 1 else (1, 1)
        groups = _determined_groups(
            terms, one.at[dimension], other.at[dimension], widths, {a: ids[a] for a in open_ids}
        )
        if groups is None:
            return True
        open_ids -= groups
    return not open_ids


def _group_ids(terms: Terms) -> list[int]:
    """The atoms of the workgroup's ids, of axes with more than one."""
    ids = (terms.id("workgroup_id", axis) for axis in "xyz")
    return [atom for atom in ids if terms.constant(atom) is None]


def _modulus(terms: Terms, one: int, other: int, widths: Sequence[int]) -> int | None:
    """Modulo what the sums of two indices are equal where their elements are; 0 as integers, None if that is not known."""
    bits = []
    for index, width in zip((one, other), widths, strict=True):
        if not terms.is_whole(index, width):
            return None
        if not terms.is_exact(terms.modular(index), terms.types[index]):
            bits.append((int_type(terms.types[index]) or (0, False))[0])
    return 1 << min(bits) if bits else 0


def _determined_groups(
    terms: Terms, one: int, other: int, widths: Sequence[int], ids: dict[int, int]
) -> set[int] | None:
    """The ids of workgroups that are equal where the indices are; None where these never are."""
    modulus = _modulus(terms, one, other, widths)
    if modulus is None:
        return set()
    first, second = terms.modular(one), terms.modular(other)
    # what is the same in the whole launch cancels, as constants do; all else moves on both sides by itself
    common = {atom for atom in (*first.atoms, *second.atoms) if not terms.varies[atom]}
    same = first.part(common.__contains__).plus(second.part(common.__contains__), -1)
    rest_one, rest_other = (form.part(lambda a: a not in common and a not in ids) for form in (first, second))
    strides = [(form.atoms.get(atom, 0)) for atom in ids for form in (first, second)]
    gap = Form(first.const - second.const, {}).plus(same)
    low, high = terms.range(gap)
    (low_one, high_one), (low_other, high_other) = terms.range(rest_one), terms.range(rest_other)
    low, high = low + low_one - high_other - (widths[1] - 1), high + high_one - low_other + (widths[0] - 1)
    unit = math.gcd(
        modulus, *gap.atoms.values(), *rest_one.atoms.values(), *rest_other.atoms.values(), *strides
    )
    # of two vectors the elements meet at any of these distances
    if unit > 1 and all((gap.const + d) % unit for d in range(1 - widths[1], widths[0])):
        return None
    if any(first.atoms.get(atom, 0) != second.atoms.get(atom, 0) for atom in ids):
        spread = [terms.range(form.part(ids.__contains__)) for form in (first, second)]
        low, high = low + spread[0][0] - spread[1][1], high + spread[0][1] - spread[1][0]
        is_apart = low > 0 or high < 0
        return None if is_apart and (not modulus or max(-low, high) < modulus) else set()
    if (low > 0 or high < 0) and not any(first.atoms.get(atom) for atom in ids):
        return None if not modulus or max(-low, high) < modulus else set()
    reach = max(-low, high, 0)
    groups: set[int] = set()
    reaches = []
    ordered = sorted((a for a in ids if first.atoms.get(a)), key=lambda a: abs(first.atoms[a]))
    for atom in ordered:
        reaches.append((atom, reach))
        reach += abs(first.atoms[atom]) * (ids[atom] - 1)
    if modulus and reach >= modulus:
        return set()
    for atom, below in reversed(reaches):
        if abs(first.atoms[atom]) <= below:
            break
        groups.add(atom)
    return groups


def in_one_lane(terms: Terms, one: Access, other: Access) -> bool:
    """Whether, within a workgroup, no element is touched by `one` in a lane and by `other` in another one."""
    if "other" in (one.kind, other.kind) or len(one.at) != 1 or len(other.at) != 1:
        return False
    first, second = _by_lane(terms, one), _by_lane(terms, other)
    if (
        first is None
        or second is None
        or first[0] != second[0]
        or terms.types[one.at[0]] != terms.types[other.at[0]]
    ):
        return False
    size = 1 << (int_type(terms.types[one.at[0]]) or (0, False))[0]
    owner: dict[int, int] = {}
    for found in (first[1], second[1]):
        for lane, offset in found:
            if owner.setdefault(offset % size, lane) != lane:
                return False
    return True


def _by_lane(terms: Terms, access: Access) -> tuple[object, list[tuple[int, int]]] | None:
    """Part of an index that the workgroup agrees on, and each lane with each offset from there that it touches."""
    turns = [loop.turn for loop in access.loops if loop.turn is not None]
    all_elements = elements(terms, access, access.at[0], turns, is_read=True)
    form = terms.modular(access.at[0])
    lanes = terms.lane_sums(form.part(lambda atom: terms.varies[atom] == LANE))
    varying = Form(form.const, {a: t for a, t in form.atoms.items() if terms.varies[a] != LANE})
    if all_elements is None or lanes is None:
        return None
    # the elements of one lane, counted from its sum of local ids
    fixed = dict(all_elements.fixed)
    offsets = {varying.const}
    for atom, times in varying.atoms.items():
        if atom not in fixed:
            low, high = terms.bounds[atom]
            offsets = (
                {o + times * n for o in offsets for n in range(low, high + 1)}
                if (high - low) * len(offsets) < MOST_ELEMENTS
                else set()
            )
        if len(offsets) * terms.local_count > MOST_ELEMENTS or not offsets:
            return None
    offsets = {o + lane for o in offsets for lane in range(access.width)}
    runs = lane_conditions(terms, access)
    places = [(lane, value + o) for lane, value in enumerate(lanes) if runs[lane] for o in offsets]
    return all_elements.fixed, places

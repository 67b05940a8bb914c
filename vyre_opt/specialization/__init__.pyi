"""The public names of specialization.  Made by `python docs/op_stubs.py`."""

from .keys import SpecCacheKey as SpecCacheKey
from .spec_map import SpecMap as SpecMap
from .values import SpecValue as SpecValue
from .keys import versioned_specialization_artifact_key as versioned_specialization_artifact_key
from .keys import vsa_specialization_key as vsa_specialization_key

"""Data types: one interned object a type, so that types compare with ``is``.

Every type has a name (its text form), a cache tag (stable across versions, never
reused) and, where it has one, a size.  Arithmetic exists on bool, the integers
of 8 to 64 bits, f16, bf16, f32, f64, vectors and matrices of these; the other types name
the elements of a buffer and the values that cross the host boundary.

A matrix is a value of a whole subgroup, `matrix<16x16xbf16, a>`: each of the 32 lanes holds as many of its elements, and
which, the target decides.  Its use says where it stands in a product a * b + acc.

A slice is a value of a whole workgroup, `slice<?xf32>` or `slice<64x32xbf16>`: a row or a block of elements.  An extent of `?` is
known when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, ClassVar

__all__ = [
    "DTYPE",
    "DataType",
    "MATRIX_USES",
    "MAX_MATRIX_ELEMENTS",
    "MAX_VECTOR_LANES",
    "MAX_SLICE_ELEMENTS",
    "MIN_VECTOR_LANES",
    "TypeNameError",
    "UNKNOWN",
    "as_type",
    "matrix_steps",
    "vector_lanes",
    "with_article",
    "with_bound",
]

MIN_VECTOR_LANES, MAX_VECTOR_LANES = 2, 64
"""The lanes that a vector type may have in a text; `DataType.vec` also builds types of one lane."""

MATRIX_USES = ("a", "b", "acc")
MAX_MATRIX_ELEMENTS = 2048
"""64 of each lane."""

MAX_SLICE_ELEMENTS = 1 << 16
"""Most elements of a slice whose extents are fixed."""

# name -> (attribute, tag, kind, bits).  `bits` is None where no static size exists.
_SIMPLE: dict[str, tuple[str, int, str, int | None]] = {
    "u32": ("U32", 0x01, "uint", 32),
    "i32": ("I32", 0x02, "int", 32),
    "u64": ("U64", 0x03, "uint", 64),
    "vec2u32": ("VEC2_U32", 0x04, "opaque", 64),
    "vec4u32": ("VEC4_U32", 0x05, "opaque", 128),
    "bool": ("BOOL", 0x06, "bool", 8),
    "bytes": ("BYTES", 0x07, "opaque", None),
    "f16": ("F16", 0x09, "float", 16),
    "bf16": ("BF16", 0x0A, "float", 16),
    "f32": ("F32", 0x0B, "float", 32),
    "f64": ("F64", 0x0C, "float", 64),
    "tensor": ("TENSOR", 0x0D, "opaque", None),
    "u8": ("U8", 0x0E, "uint", 8),
    "u16": ("U16", 0x0F, "uint", 16),
    "i8": ("I8", 0x10, "int", 8),
    "i16": ("I16", 0x11, "int", 16),
    "i64": ("I64", 0x12, "int", 64),
    "f8e4m3": ("F8E4M3", 0x19, "opaque", 8),
    "f8e5m2": ("F8E5M2", 0x1A, "opaque", 8),
    "i4": ("I4", 0x1B, "opaque", 4),
    "fp4": ("FP4", 0x1C, "opaque", 4),
    "nf4": ("NF4", 0x1D, "opaque", 4),
}

# name -> (tag, how its parameters are written)
_PARAMETRIC: dict[str, tuple[int, str]] = {
    "array": (0x08, "N bytes an element"),
    "handle": (0x13, "a type id"),
    "vec": (0x14, "N x TYPE"),
    "tensor_shaped": (0x15, "TYPE, D0, D1, ..."),
    "sparse_csr": (0x16, "TYPE"),
    "sparse_coo": (0x17, "TYPE"),
    "sparse_bsr": (0x18, "TYPE, ROWS, COLUMNS"),
    "device_mesh": (0x1E, "A0, A1, ..."),
    "matrix": (0x1F, "ROWSxCOLUMNSxTYPE, USE"),
    "slice": (0x21, "ROWSxCOLUMNSxTYPE"),
    "opaque": (0x80, "an id"),
}


def vector_lanes(lanes: int) -> str:
    """The error message for a vector of that many lanes."""
    return f"a vector has {MIN_VECTOR_LANES} to {MAX_VECTOR_LANES} lanes, not {lanes}"


class TypeNameError(ValueError):
    """A type that does not exist or whose parameters are wrong."""


class DataType:
    """An interned type.  Make one by attribute (`DataType.F32`), `DataType.vec`, or `DataType.of`.

    Attributes: `name` (text form), `tag` (cache tag), `kind` (bool, uint, int,
    float, vec, matrix, slice or opaque), `bits` (of one element as stored; None if it has no
    static size), `element` and `lanes` (of a vector, and of what a lane holds of a matrix; of a slice its element and 1; else itself and 1),
    `params` (as given to `of`), `bound` (what a type parameter stands for; else itself).
    """

    __slots__ = ("name", "tag", "kind", "bits", "element", "lanes", "params", "bound")

    _interned: ClassVar[dict[str, DataType]] = {}
    _open: ClassVar[dict[tuple[str, DataType], DataType]] = {}

    U8: ClassVar[DataType]
    U16: ClassVar[DataType]
    U32: ClassVar[DataType]
    U64: ClassVar[DataType]
    I8: ClassVar[DataType]
    I16: ClassVar[DataType]
    I32: ClassVar[DataType]
    I64: ClassVar[DataType]
    BOOL: ClassVar[DataType]
    F16: ClassVar[DataType]
    BF16: ClassVar[DataType]
    F32: ClassVar[DataType]
    F64: ClassVar[DataType]
    VEC2_U32: ClassVar[DataType]
    VEC4_U32: ClassVar[DataType]
    BYTES: ClassVar[DataType]
    TENSOR: ClassVar[DataType]
    F8E4M3: ClassVar[DataType]
    F8E5M2: ClassVar[DataType]
    I4: ClassVar[DataType]
    FP4: ClassVar[DataType]
    NF4: ClassVar[DataType]
    TF32: ClassVar[DataType]

    def __init__(self, name: str, tag: int, kind: str, bits: int | None, params: tuple[Any, ...]) -> None:
        self.name, self.tag, self.kind, self.bits, self.params = name, tag, kind, bits, params
        self.element = self.bound = self
        self.lanes = 1

    @staticmethod
    def of(name: str, *params: Any) -> DataType:
        """The type called `name`, with `params` (ints and DataTypes) for a parametric one.

        Raises TypeNameError for an unknown name or wrong parameters.
        """
        interned = DataType._interned.get(name)
        if interned is not None and not params:
            return interned
        if name not in _PARAMETRIC:
            raise TypeNameError(
                f"type {name} takes no parameters" if name in _SIMPLE else f"unknown type {name}"
            )
        return _parametric(name, params)

    @staticmethod
    def vec(element: DataType, lanes: int) -> DataType:
        """`lanes` values of a scalar type, 1 to 64 of them.

        A vector of one lane is a type for cache keys and tables only; no text and no op has one.
        """
        return DataType.of("vec", lanes, element)

    @staticmethod
    def matrix(rows: int, columns: int, element: DataType, use: str) -> DataType:
        """A matrix of a subgroup.  `use`: "a" and "b" are factors of a product, "acc" is what it is added to.

        Factors are of f16, bf16, i8 or TF32, which is f32 with 10 bits of its fraction; `acc` of f32 or i32, or of a type
        that it is stored as.  Raises TypeNameError for other elements, and for sizes that no target has.
        """
        return DataType.of("matrix", rows, columns, element, use)

    @staticmethod
    def slice(extents: Iterable[int | None], element: DataType) -> DataType:
        """A row or a block of a workgroup, of one or two extents; None for one that is known when the program runs.

        Raises TypeNameError for other numbers of extents, and for elements that are no scalars.
        """
        return DataType.of("slice", *(extent or 0 for extent in extents), element)

    @staticmethod
    def parameter(name: str, bound: DataType) -> DataType:
        """The type parameter `@name` of a program, which is `bound` unless another type is given.

        It is equal to no other type, so the checks of the generic program hold for each type that
        it may become; only its kind and size are those of `bound`.  Raises TypeNameError for a
        `bound` that is not a scalar.
        """
        if bound.kind not in ("bool", "uint", "int", "float") or bound.is_open:
            raise TypeNameError(f"a type parameter stands for a bool, an integer or a float, not {bound}")
        dtype = DataType._open.get((name, bound))
        if dtype is None:
            dtype = DataType(f"@{name}", -1, bound.kind, bound.bits, ())
            dtype.bound = bound
            # setdefault: of two threads that get here both have to leave with the same object
            dtype = DataType._open.setdefault((name, bound), dtype)
        return dtype

    @staticmethod
    def all_names() -> list[str]:
        """Every type name, the parametric ones without their parameters."""
        return [*_SIMPLE, *_PARAMETRIC]

    @property
    def is_int(self) -> bool:
        return self.kind == "int" or self.kind == "uint"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_vec(self) -> bool:
        return self.kind == "vec"

    @property
    def is_matrix(self) -> bool:
        return self.kind == "matrix"

    @property
    def is_slice(self) -> bool:
        return self.kind == "slice"

    @property
    def extents(self) -> tuple[int | None, ...]:
        """Extents of a slice; None for one that is known when the program runs; () for another type."""
        return tuple([extent or None for extent in self.params[:-1]]) if self.kind == "slice" else ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of a matrix."""
        return self.params[0], self.params[1]

    @property
    def use(self) -> str:
        """Use of a matrix: one of MATRIX_USES."""
        return str(self.params[3])

    @property
    def stored(self) -> DataType:
        """The element of a buffer that holds the elements of a matrix: f32 for those of TF32."""
        return DataType.F32 if self.element is DataType.TF32 else self.element

    @property
    def is_open(self) -> bool:
        """True for a type parameter, and a vector of one."""
        return self.bound is not self

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def has_arithmetic(self) -> bool:
        """True for the types that an SSA value can have arithmetic on."""
        return self.element.kind in ("bool", "uint", "int", "float")

    @property
    def size_bytes(self) -> int | None:
        """Bytes of one element; None without a static size or for a packed sub-byte type."""
        return None if self.bits is None or self.bits % 8 else self.bits // 8

    @property
    def element_bytes(self) -> int | None:
        """Bytes of one buffer element: `size_bytes`, or 1 for `bytes` and the packed sub-byte types,
        whose buffers are counted in bytes since no op loads or stores a single element."""
        packed = self.name == "bytes" or (self.bits is not None and self.bits < 8)
        return 1 if packed else self.size_bytes

    def with_element(self, element: DataType) -> DataType:
        """The same shape over another scalar type.  Raises TypeNameError for a matrix that cannot be of it."""
        if self.kind == "matrix":
            return DataType.matrix(*self.shape, element, self.use)
        if self.kind == "slice":
            return DataType.slice(self.extents, element)
        return DataType.vec(element, self.lanes) if self.kind == "vec" else element

    def __repr__(self) -> str:
        return f"DataType({self.name})"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        if self is DataType.TF32:
            return (getattr, (DataType, "TF32"))
        if self.is_open and not self.is_vec:
            return (DataType.parameter, (self.name[1:], self.bound))
        return (DataType.of, (self.name.partition("<")[0], *self.params))

    def __copy__(self) -> DataType:
        return self

    def __deepcopy__(self, memo: object) -> DataType:
        return self


def with_bound(dtype: DataType) -> str:
    """A type for messages that compare two: a type parameter with what it stands for, `@T (f32)`."""
    return f"{dtype} ({dtype.bound})" if dtype.is_open else str(dtype)


def with_article(dtype: object) -> str:
    """A type of the IR or of Python, or its name, as people say it: a u32, an i32, an f32, a vec<4 x f32>, an int."""
    name = str(dtype)
    spelled = (
        name.rstrip("0123456789") if name[-1:].isdigit() else ""
    )  # u32 is said letter by letter, and bool is not
    is_vowel = name[:1].lower() in "aeio" or spelled in ("f", "fp", "nf") or name.startswith("f8")
    return f"{'an' if is_vowel else 'a'} {name}"


def as_type(dtype: DataType | str) -> DataType:
    """A type, or the one of a name such as "f32".  Raises ValueError for a name that is none, TypeError for anything else."""
    if isinstance(dtype, DataType):
        return dtype
    if not isinstance(dtype, str):
        raise TypeError(f"a type is a DataType or its name, such as 'f32', not {dtype!r}")
    try:
        return DataType.of(dtype)
    except TypeNameError as error:
        from .suggestions import suggest  # which only a mistake needs

        hint = suggest(dtype, DataType.all_names())
        raise ValueError(f"{error}" + (f"; {hint}" if hint else "")) from None


def _make(text: str, tag: int, kind: str, bits: int | None, params: tuple[Any, ...]) -> DataType:
    return DataType._interned.setdefault(text, DataType(text, tag, kind, bits, params))


def _parametric(name: str, params: tuple[Any, ...]) -> DataType:
    tag, syntax = _PARAMETRIC[name]
    types = [p for p in params if isinstance(p, DataType)]
    ints = [p for p in params if isinstance(p, int) and not isinstance(p, bool)]
    malformed = TypeNameError(f"type {name} is written {name}<{syntax}>")
    uses = [p for p in params if isinstance(p, str) and name == "matrix"]
    if len(types) + len(ints) + len(uses) != len(params) or any(n < 0 for n in ints):
        raise malformed
    shape = (len(types), len(ints))
    if name == "matrix":
        if len(params) != 4 or shape != (1, 2) or params[2] is not types[0]:
            raise malformed
        return _matrix(*params)
    if any(n >= 1 << 64 for n in ints):
        raise malformed
    if name == "slice":
        if shape[0] != 1 or params[-1] is not types[0]:
            raise malformed
        return _slice(ints, types[0])
    if name == "vec":
        if shape != (1, 1) or params[0] is not ints[0]:
            raise malformed
        return _vector(types[0], ints[0])
    if any(t.is_open for t in types):
        raise TypeNameError(f"the element of a {name} is a type, not a parameter")
    allowed = {
        **dict.fromkeys(("array", "handle", "opaque"), shape == (0, 1)),
        "tensor_shaped": shape[0] == 1 and shape[1] >= 1 and params[0] is types[0],
        **dict.fromkeys(("sparse_csr", "sparse_coo"), shape == (1, 0)),
        "sparse_bsr": shape == (1, 2) and params[0] is types[0],
        "device_mesh": shape[0] == 0 and shape[1] >= 1,
    }
    if not allowed[name]:
        raise malformed
    bits = ints[0] * 8 if name == "array" else 32 if name == "handle" else None
    text = f"{name}<{', '.join(p.name if isinstance(p, DataType) else str(p) for p in params)}>"
    return _make(text, tag, "opaque", bits, params)


def _vector(element: DataType, lanes: int) -> DataType:
    if element.kind not in ("bool", "uint", "int", "float"):
        raise TypeNameError(f"a vector's element is a bool, an integer or a float, not {element}")
    if not 1 <= lanes <= MAX_VECTOR_LANES:
        raise TypeNameError(f"a vector has 1 to {MAX_VECTOR_LANES} lanes, not {lanes}")
    assert element.bits is not None
    text, tag, params = f"vec<{lanes} x {element.name}>", _PARAMETRIC["vec"][0], (lanes, element)
    if element.is_open:
        # two programs may have a parameter @T with different bounds, so the name alone is no key
        dtype = DataType(text, tag, "vec", lanes * element.bits, params)
        dtype.bound = DataType.vec(element.bound, lanes)
        dtype = DataType._open.setdefault((text, dtype.bound), dtype)
    else:
        dtype = _make(text, tag, "vec", lanes * element.bits, params)
    dtype.element, dtype.lanes = element, lanes
    return dtype


def _slice(extents: Sequence[int], element: DataType) -> DataType:
    if element.kind not in ("bool", "uint", "int", "float"):
        raise TypeNameError(f"a slice's element is a bool, an integer or a float, not {element}")
    if element.is_open:
        raise TypeNameError("the element of a slice is a type, not a parameter")
    if len(extents) not in (1, 2):
        raise TypeNameError(f"a slice has 1 or 2 extents, not {len(extents)}")
    if prod(extents) > MAX_SLICE_ELEMENTS:
        raise TypeNameError(
            f"a slice of fixed extents has {MAX_SLICE_ELEMENTS} elements at most, not {prod(extents)}"
        )
    spelled = "".join([f"{extent or '?'}x" for extent in extents])
    text = f"slice<{spelled}{element.name}>"
    dtype = _make(text, _PARAMETRIC["slice"][0], "slice", None, (*extents, element))
    dtype.element = element
    return dtype


def matrix_steps(element: DataType, use: str) -> tuple[int, int]:
    """The least rows and columns of a matrix: 16 x 8, and along the sum 256 bits of elements."""
    depth = 256 // (element.bits or 256)
    return {"a": (16, depth), "b": (depth, 8), "acc": (16, 8)}[use]


def _matrix(rows: int, columns: int, element: DataType, use: str) -> DataType:
    if use not in MATRIX_USES:
        raise TypeNameError(f"the use of a matrix is {', '.join(MATRIX_USES)}, not {use}")
    factors = (DataType.F16, DataType.BF16, DataType.TF32, DataType.I8)
    allowed = (DataType.F32, DataType.I32, *factors[:2], factors[3]) if use == "acc" else factors
    if element not in allowed:
        raise TypeNameError(f"a matrix of use {use} is of {', '.join(map(str, allowed))}, not {element}")
    row_step, column_step = matrix_steps(element, use)
    if rows < row_step or columns < column_step or rows & (rows - 1) or columns & (columns - 1):
        raise TypeNameError(
            f"a matrix of {element} and use {use} has powers of two of rows and columns, from {row_step} x {column_step} on, "
            f"not {rows} x {columns}"
        )
    if rows * columns > MAX_MATRIX_ELEMENTS:
        raise TypeNameError(f"a matrix has {MAX_MATRIX_ELEMENTS} elements at most, not {rows} x {columns}")
    text, lanes = f"matrix<{rows}x{columns}x{element.name}, {use}>", rows * columns // 32
    assert element.bits is not None
    params = (rows, columns, element, use)
    dtype = _make(text, _PARAMETRIC["matrix"][0], "matrix", lanes * element.bits, params)
    dtype.element, dtype.lanes = element, lanes
    return dtype


UNKNOWN = DataType("?", -1, "opaque", None, ())
"""The type of a value whose type an error has hidden; no verified module has it."""

DTYPE = DataType("dtype", -1, "dtype", None, ())
"""The type of the spec that declares a type parameter, `spec @T : dtype = f32`; no value or buffer has it."""

DataType.TF32 = DataType("tf32", 0x20, "opaque", 32, ())
"""The element of factors of products alone: no text has it elsewhere, and no value or buffer."""

for _name, (_attribute, _tag, _kind, _bits) in _SIMPLE.items():
    setattr(DataType, _attribute, _make(_name, _tag, _kind, _bits, ()))

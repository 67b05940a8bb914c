"""The lexer of .vyre for Pygments, which finds it by its entry point.

Made by `python docs/highlighters.py` from grammar/vyre.lark and the op table.
"""

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Whitespace

__all__ = ["VyreLexer"]


class VyreLexer(RegexLexer):
    """The text language of vyre-opt."""

    name = "vyre"
    aliases = ("vyre",)
    filenames = ("*.vyre",)
    mimetypes = ("text/x-vyre",)

    # fmt: off
    tokens = {  # noqa: RUF012 - as Pygments declares it
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String.Double),
            (r"\b(buffer|func|param|pipeline|program|region|spec)(\s+)(@[\w.$]+)", bygroups(Keyword.Declaration, Whitespace, Name.Class)),
            (r"@[\w.$]+", Name.Variable.Global),
            (r"%[\w.$]+", Name.Variable),
            (r"(?:[1-9]\d*|\?)x(?:(?:[1-9]\d*|\?)x)?[A-Za-z_]\w*", Keyword.Type),
            (r"[+-]?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|inf\b|nan\b)", Number.Float),
            (r"-?(?:0[xX][0-9a-fA-F]+|\d+)", Number.Integer),
            (r"[A-Za-z_]\w*(?:\.\w+)+", Name.Function),
            (r"\b(?:array|bf16|bool|bytes|device_mesh|dtype|f16|f32|f64|f8e4m3|f8e5m2|fp4|handle|i16|i32|i4|i64|i8|matrix|nf4|opaque|slice|sparse_bsr|sparse_coo|sparse_csr|tensor|tensor_shaped|u16|u32|u64|u8|vec|vec2u32|vec4u32)\b", Keyword.Type),
            (r"\b(?:false|true)\b", Keyword.Constant),
            (r"\b(?:abs|abs_diff|acos|add|add_sat|and|asin|atan|atan2|atomic_add|atomic_and|atomic_compare_exchange|atomic_exchange|atomic_max|atomic_min|atomic_or|atomic_xor|barrier|bitcast|breakpoint|cast|cbrt|ceil|check_bounds|clz|condition|const|copy_async|copy_wait|cos|cosh|ctz|div|eq|erf|erfc|exp|exp10|exp2|expm1|extract|floor|fma|ge|global_id|global_size|gt|insert|lane_id|le|len|load|local_id|log|log1p|log2|lt|matrix_load|matrix_mul_add|matrix_pack|matrix_store|matrix_unpack|max|min|movemask|mul|mul_hi|mul_sat|ne|neg|not|num_subgroups|num_workgroups|or|permute|popcount|pow|rcp|rem|reverse_bits|rotl|rotr|round_even|rsqrt|select|shl|shr|sin|sinh|slice_broadcast|slice_dot|slice_gather|slice_iota|slice_len|slice_load|slice_reduce|slice_scan|slice_store|slice_transpose|splat|sqrt|store|sub|sub_sat|subgroup_ballot|subgroup_id|subgroup_reduce|subgroup_scan|subgroup_shuffle|subgroup_size|tan|tanh|trunc|vector|workgroup_id|workgroup_reduce|workgroup_scan|workgroup_size|xor|yield)\b", Name.Builtin),
            (r"\b(?:assert|buffer|call|debug_print|do|dtype|else|fastmath|fill|for|func|host_read|if|iter|launch|loc|param|params|pipeline|program|region|repeat|spec|step|to|trap|vyre|while)\b", Keyword),
            (r"\b(?:a|acc|acq_rel|acquire|add|afn|and|arcp|atomic_add|atomic_and|atomic_max|atomic_min|atomic_or|atomic_xor|b|binding|checked|clipped|cluster|column_major|contract|down|exclusive|filled|grid|idx|inclusive|live_in|live_out|load|matrix_load|matrix_store|max|min|mul|ninf|nnan|nsz|or|prefer|read|read_write|reassoc|relaxed|release|row_major|seq_cst|store|subgroup|up|workgroup|write|x|xor|y|z)\b", Keyword.Pseudo),
            (r"[A-Za-z_]\w*", Name.Attribute),
            (r"->|[{}()\[\]<>,:=?^*+/.-]", Punctuation),
        ],
    }
    # fmt: on

"""The pass manager: order, requirements, analyses that stay true, passes held to their word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.each import each

from vyre_opt import PassManager, parse, print_program
from vyre_opt.analysis.footprint import Footprints
from vyre_opt.ir import OPS, DataType, DiagnosticError, Module, Op, OpDef, Program
from vyre_opt.ir.uniformity import Uniformity
from vyre_opt.passes import Pass, PassContext, register, register_analysis, registry
from vyre_opt.passes.manager import Analyses, PassFailure, schedule_passes
from vyre_opt.passes.pipeline_text import format_pipeline, parse_pipeline
from vyre_opt.passes.registry import NoOptions, PassError, find_pass, make_pass

TEXT = """vyre 1
program @p workgroup(4) {
  buffer @out : u32[4] write binding(0) live_out
  %l = local_id x
  %a = add %l, %l : u32
  %b = add %l, %l : u32
  %c = mul %a, %b : u32
  store %c, @out[%l] : u32
}
"""
SYNCED = """vyre 1
program @p workgroup(64) {
  buffer @x : u32[64] read_write binding(0)
  %l = local_id x
  %four = const 4 : u32
  %n = load @x[%four] : u32
  %some = lt %n, %four : u32
  if %some {
    %sum = subgroup_reduce<add> %l : u32
    store %sum, @x[%l] : u32
  }
}
"""
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def own_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passes registered by a test are forgotten after it."""
    for name in registry.BUILTIN:
        registry.find_pass(name)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def declare(name: str, run: Any = None, **declared: Any) -> type[Pass]:
    body = {"name": name, "summary": name, "run": run or (lambda self, module, ctx: False), **declared}
    return register(type(name, (Pass,), body))


def names(passes: list[Pass]) -> list[str]:
    return [p.name for p in passes]


# --- order


def test_requirements_come_first_by_name_and_once() -> None:
    declare("zz")
    declare("mm", requires=("zz",))
    declare("aa")
    declare("top", requires=("zz", "mm", "aa"))
    assert names(schedule_passes([make_pass("top"), make_pass("aa")])) == ["aa", "zz", "mm", "top", "aa"]


def test_an_invalidated_requirement_runs_again() -> None:
    declare("fact")
    declare("breaker", invalidates=("fact",))
    declare("user_", requires=("fact",))
    requested = [make_pass("user_"), make_pass("user_"), make_pass("breaker"), make_pass("user_")]
    assert names(schedule_passes(requested)) == ["fact", "user_", "user_", "breaker", "fact", "user_"]


def test_a_cycle_names_its_members() -> None:
    declare("one", requires=("two",))
    declare("two", requires=("three",))
    declare("three", requires=("one",))
    with pytest.raises(PassError, match="one -> two -> three -> one"):
        schedule_passes([make_pass("one")])


def test_an_unknown_requirement_has_a_suggestion() -> None:
    declare("hopeful", requires=("unrol",))
    with pytest.raises(PassError, match=r"pass hopeful requires unrol: .*did you mean unroll\?"):
        schedule_passes([make_pass("hopeful")])


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"invalidates": ("footprint",)},
            r"invalidates footprint, which is no pass and no analysis; did you mean footprints\?",
        ),
        ({"invalidates": ("dec",)}, r"invalidates dec, which is no pass and no analysis; did you mean dce\?"),
        (
            {"invalidates": ("fusion", "xyzzy")},
            "invalidates xyzzy, which is no pass .*; analyses are buffer_layout, ",
        ),
        (
            {"preserves": ("uniformly",)},
            r"preserves uniformly, which is no analysis; did you mean uniformity\?",
        ),
        ({"preserves": ("cse",)}, "preserves cse, which is no analysis"),
        ({"requires": "cse"}, "requires of pass hopeful is a tuple of names, not 'cse'"),
        ({"invalidates": (OPS,)}, "invalidates of pass hopeful is a tuple of names, not"),
    ],
)
def test_an_unknown_name_has_a_suggestion(declared: dict[str, Any], message: str) -> None:
    declare("hopeful", **declared)
    with pytest.raises(PassError, match=message):
        PassManager("hopeful")


def test_names_that_may_be_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes with - or _, those of plugins among them; analyses that are built in, or registered."""
    declare("other_pass")
    declare(
        "fine", invalidates=("other-pass", "decode-scan-fuse", "fusion"), preserves=("op_count", "footprints")
    )
    assert names(PassManager("fine").passes) == ["fine"]
    assert {Footprints.name, Uniformity.name} < registry.ANALYSES.keys()
    monkeypatch.setattr(registry, "_registered_analyses", set())
    with pytest.raises(PassError, match="preserves op_count, which is no analysis"):
        PassManager("fine")


def test_a_duplicate_is_an_error() -> None:
    declare("twin")
    with pytest.raises(PassError, match="pass twin is registered twice"):
        register(type("Other", (Pass,), {"name": "twin", "summary": "", "run": None}))


def test_unknown_pass() -> None:
    with pytest.raises(PassError, match=r"unknown pass decode-scan-fus; did you mean decode_scan_fuse\?"):
        PassManager("decode-scan-fus")


def test_an_error_of_a_pipeline_ends_at_the_line_of_the_caller() -> None:
    with pytest.raises(
        PassError, match="unknown pass constant-folding; `constant-folding` is `fold` here"
    ) as caught:
        PassManager("cse,constant-folding")
    assert [entry.path for entry in caught.traceback] == [Path(__file__)]


def test_dashes_and_underscores_are_the_same() -> None:
    assert names(PassManager("decode-scan-fuse").passes) == ["decode_scan_fuse"]


# --- pipelines as text


@dataclass(frozen=True)
class TunedOptions:
    factor: int = 4
    full: bool = False
    ratio: float = 0.5
    mode: str = "fast"


def test_the_text_of_a_pipeline_reads_back() -> None:
    declare("tuned", Options=TunedOptions)
    text = "cse,tuned{factor=8 full=true mode=slow},cse,tuned"
    assert format_pipeline(parse_pipeline(text)) == text
    assert (
        format_pipeline(parse_pipeline("tuned { factor = 0x10, ratio = 0.25 } , cse"))
        == "tuned{factor=16 ratio=0.25},cse"
    )
    assert format_pipeline(parse_pipeline("tuned{factor=4}")) == "tuned", "defaults are left out"
    assert parse_pipeline("") == []


WRONG_PIPELINES = [
    ("cse,", "expected a pass after the comma"),
    (",cse", "expected the name of a pass"),
    ("cse dce", "expected a comma between passes"),
    ("tuned{factor", "expected = after factor"),
    ("tuned{factor=", "expected a value for factor"),
    ("tuned{factor=4", "expected an option, or }"),
    ("tuned{factor=4 factor=5}", "option factor is given twice"),
    ("tuned{factr=4}", r"no option factr; did you mean factor\?"),
    ("tuned{factor=four}", "option factor of tuned is int, not 'four'"),
    (f"tuned{{factor=0x{'f' * 4000}}}", "option factor of tuned is given more than 64 bits"),
    ("tuned{full=maybe}", "option full of tuned is bool"),
    ("cse{x=1}", "pass cse has no option x; it has none"),
    ("}", "expected the name of a pass"),
]


def test_wrong_pipelines_say_where() -> None:
    declare("tuned", Options=TunedOptions)

    def check(case: tuple[str, str]) -> None:
        text, message = case
        with pytest.raises(PassError, match=message):
            parse_pipeline(text)

    each(WRONG_PIPELINES, check)


# --- analyses


@register_analysis
class OpCount:
    """Ops of a program, as an analysis; counts how often it is computed."""

    name = "op_count"
    computed = 0

    def __init__(self, program: Program) -> None:
        type(self).computed += 1
        self.ops = sum(1 for _ in program.walk())


def drop_last_add(module: Module) -> None:
    body = module.programs["p"].body
    first, second = [op for op in body.ops if op.name == "add"]
    body.ops.remove(second)
    for op in body.ops:
        op.operands = tuple(first.result if v is second.result else v for v in op.operands)


@pytest.mark.parametrize(
    ("preserves", "invalidates", "computed", "seen"),
    [((), (), 2, [5, 4]), (("op_count",), ("op_count",), 2, [5, 4])],
    ids=["dropped after a change", "invalidates wins over preserves"],
)
def test_no_pass_sees_a_stale_fact(
    preserves: tuple[str, ...], invalidates: tuple[str, ...], computed: int, seen: list[int]
) -> None:
    """After a change, asking for a fact computes it anew; without one, it is kept."""
    counts: list[int] = []

    def ask(self: Pass, module: Module, ctx: PassContext) -> bool:
        counts.append(ctx.analyses.get(OpCount, module.programs["p"]).ops)
        return False

    def change(self: Pass, module: Module, ctx: PassContext) -> bool:
        drop_last_add(module)
        return True

    declare("ask", ask)
    declare("change", change, preserves=preserves, invalidates=invalidates)
    OpCount.computed = 0
    PassManager("ask,ask,change,ask").run(parse(TEXT))
    assert counts == [seen[0], seen[0], seen[1]]
    assert OpCount.computed == computed


def test_every_analysis_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    get = Analyses.get
    monkeypatch.setattr(
        Analyses, "get", lambda self, analysis, item: (asked.add(analysis.name), get(self, analysis, item))[1]
    )
    for name in ("elementwise_chain", "repeated_stages"):
        text = (EXAMPLES / "pipelines" / f"{name}.vyre").read_text(encoding="utf-8")
        PassManager("verify,default").run(parse(text))
    PassManager("store_forward").run(parse(SYNCED))
    assert asked == registry.ANALYSES.keys()


def test_a_preserved_fact_is_kept() -> None:
    def ask(self: Pass, module: Module, ctx: PassContext) -> bool:
        ctx.analyses.get(OpCount, module.programs["p"])
        return False

    def rename(self: Pass, module: Module, ctx: PassContext) -> bool:
        module.programs["p"].buffers["out"].count = 8
        return True

    declare("ask", ask)
    declare("rename", rename, preserves=("op_count",))
    OpCount.computed = 0
    PassManager("ask,rename,ask").run(parse(TEXT))
    assert OpCount.computed == 1


# --- passes held to their word


def test_a_change_that_is_not_reported() -> None:
    def sly(self: Pass, module: Module, ctx: PassContext) -> bool:
        drop_last_add(module)
        return False

    declare("sly", sly)
    with pytest.raises(PassFailure, match="pass sly reported no change, but something changed"):
        PassManager("sly").run(parse(TEXT))


def test_a_report_without_a_change() -> None:
    declare("boast", lambda self, module, ctx: True)
    with pytest.raises(PassFailure, match="pass boast reported a change, but nothing changed"):
        PassManager("boast").run(parse(TEXT))


def test_a_pass_that_breaks_the_module() -> None:
    def break_it(self: Pass, module: Module, ctx: PassContext) -> bool:
        ops: list[Op] = module.programs["p"].body.ops
        ops.insert(0, ops.pop(3))
        return True

    declare("break_it", break_it)
    with pytest.raises(PassFailure, match="break_it left a module that does not verify") as caught:
        PassManager("break_it").run(parse(TEXT))
    assert "does not dominate" in caught.value.diagnostics[0].message
    PassManager("break_it", verify_each=False).run(parse(TEXT))


CALLS = """vyre 2
func @twice(%x : u32) -> u32 {
  %y = add %x, %x
  yield %y
}
program @p workgroup(1) {
  buffer @out : u32[1] write binding(0) live_out
  %one = const 1 : u32
  %two = call @twice(%one) : (u32) -> u32
  store %two, @out[0]
}
program @q workgroup(1) {
  buffer @out : u32[1] write binding(0) live_out
  store 1, @out[0]
}
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.order.remove(m.funcs.pop("twice")), "there is no func @twice"),
        (lambda m: setattr(m.funcs["twice"], "results", (DataType.F32,)), None),
        (lambda m: m.programs["q"].body.ops.reverse(), None),
    ],
    ids=["no function", "another type", "another program"],
)
def test_what_a_pass_left_alone_is_verified_where_it_depends_on_the_rest(
    change: Callable[[Module], Any], message: str | None
) -> None:
    def changing(self: Pass, module: Module, ctx: PassContext) -> bool:
        change(module)
        return True

    declare("changing", changing)
    with pytest.raises(PassFailure, match="changing left a module that does not verify") as caught:
        PassManager("changing").run(parse(CALLS))
    assert message is None or message in caught.value.diagnostics[0].message


def test_an_item_that_never_verified_is_looked_at_though_no_pass_changes_it() -> None:
    """As in a module that somebody builds."""
    module = parse(CALLS)
    module.programs["q"].workgroup = (5000, 1, 1)
    with pytest.raises(PassFailure, match="inline left a module that does not verify") as caught:
        PassManager("inline").run(module)
    assert "not 5000" in caught.value.diagnostics[0].message


def test_what_a_pass_returns_is_a_bool() -> None:
    declare("silent", lambda self, module, ctx: None)
    with pytest.raises(PassFailure, match="pass silent returned None, not whether anything changed"):
        PassManager("silent").run(parse(TEXT))


def of_another_program(module: Module) -> None:
    op = module.programs["p"].body.ops[1]
    op.operands = (op.operands[0], parse(TEXT).programs["p"].body.ops[0].result)


def set_op(number: int, **parts: Any) -> Callable[[Module], None]:
    def set_parts(module: Module) -> None:
        op = module.programs["p"].body.ops[number]
        for name, value in parts.items():
            setattr(op, name, value)

    return set_parts


def in_itself(module: Module) -> None:
    body = module.programs["p"].body
    body.ops.insert(0, Op(OPS["region"], attrs={"label": "r"}, regions=(body,)))


DAMAGES: dict[str, tuple[Callable[[Module], None], str]] = {
    "operand of another program": (of_another_program, "%l does not dominate this use"),
    "no result": (set_op(1, results=()), "add: gives 1 result, not 0"),
    "another type": (
        lambda m: setattr(m.programs["p"].body.ops[1].result, "type", DataType.F32),
        "add: %l is u32, not f32",
    ),
    "the name of a type": (
        lambda m: setattr(m.programs["p"].body.ops[1].result, "type", "u32"),
        "program @p, add: the type of %a is a DataType, not 'u32'",
    ),
    "own op": (
        set_op(1, definition=OpDef("add3", "binary", "Not of the table.")),
        "program @p, add3: it is not in the op table",
    ),
    "no definition": (set_op(1, definition=None), "program @p, an op: it is not in the op table"),
    "attribute that is None": (
        set_op(0, attrs={"axis": None}),
        "program @p, local_id: attribute axis is a word, not None",
    ),
    "buffer that is None": (
        set_op(4, attrs={"buffer": None}),
        "program @p, store: attribute buffer is a name, not None",
    ),
    "buffer that nobody declares": (set_op(4, attrs={"buffer": "ot"}), "program @p has no buffer @ot"),
    "None among operands": (
        set_op(1, operands=(None, None)),
        "program @p, add: operands is a tuple of Values, not the tuple (None, None)",
    ),
    "None among ops": (
        lambda m: m.programs["p"].body.ops.insert(0, None),  # type: ignore[arg-type]
        "program @p: an op is an Op, not None",
    ),
    "block in itself": (in_itself, "program @p: blocks nest deeper than 200, or stand in themselves"),
    "no body": (
        lambda m: setattr(m.programs["p"], "body", None),
        "program @p: a block is a Block, not None",
    ),
    "None among items": (
        lambda m: m.order.append(None),  # type: ignore[arg-type]
        "the module: an item is a Program, Func or Pipeline, not None",
    ),
    "buffer under another name": (
        lambda m: m.programs["p"].buffers.update(x=m.programs["p"].buffers["out"]),
        "program @p: the name of buffer @x is its key, not 'out'",
    ),
}


@pytest.mark.parametrize("changed", [True, False], ids=["reported", "not reported"])
def test_damage_is_an_error_of_the_pass(changed: bool) -> None:
    class Damaging(Pass):
        name = "damage"
        summary = "damage"

        def __init__(self, damage: Callable[[Module], None]) -> None:
            super().__init__()
            self.damage = damage

        def run(self, module: Module, ctx: PassContext) -> bool:
            self.damage(module)
            return changed

    def check(what: str) -> None:
        damage, message = DAMAGES[what]
        with pytest.raises(PassFailure) as caught:
            PassManager([Damaging(damage), "dce"]).run(parse(TEXT))
        assert str(caught.value) == "pass damage left a module that does not verify"
        assert caught.value.diagnostics[0].message == message
        assert message in caught.value.__notes__[0]

    each(DAMAGES, check)


def test_a_module_that_cannot_be_printed_is_no_input() -> None:
    module = parse(TEXT)
    of_another_program(module)
    with pytest.raises(DiagnosticError, match="%l does not dominate this use"):
        PassManager("dce").run(module)


def test_the_result_tells_what_happened() -> None:
    module = parse(TEXT)
    result = PassManager(["cse", "dce"]).run(module)
    assert result.changed
    assert result.statistics["cse", "ops removed"] == 1
    assert (result.runs, result.changes) == ({"cse": 1, "dce": 1}, {"cse": 1})
    assert [name for name, _ in result.seconds] == ["cse", "dce"]
    assert print_program(module).count("add %l, %l") == 1
    assert not PassManager("cse").run(module)


def test_options_default() -> None:
    assert isinstance(make_pass("cse").options, NoOptions)


@pytest.mark.parametrize(
    ("pipeline", "stale"),
    [
        ("decode_scan_fuse,launch_fusion", ["decode_scan_fuse"]),
        ("decode_scan_fuse,launch_fusion,decode_scan_fuse", []),
        ("launch_fusion,decode_scan_fuse", []),
        ("decode_scan_fuse,launch_fusion{max_group=1}", []),  # changes nothing
    ],
)
def test_a_requested_pass_that_became_stale_is_told(pipeline: str, stale: list[str]) -> None:
    text = (EXAMPLES / "pipelines" / "elementwise_chain.vyre").read_text(encoding="utf-8")
    remarks = PassManager(pipeline).run(parse(text)).remarks
    told = [r for r in remarks if r.certificate.get("reason") == "stale"]
    assert [r.pass_name for r in told] == stale
    assert all(r.certificate["invalidated_by"] == "launch_fusion" for r in told)


# --- passes that have nothing to do


def test_a_pass_runs_again_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this package; another may do more than change the module."""
    runs: list[str] = []

    def counted(pass_: type[Pass]) -> None:
        run = pass_.run
        monkeypatch.setattr(pass_, "run", lambda self, *args: runs.append(self.name) or run(self, *args))

    for name in ("cse", "dce", "unroll"):
        counted(find_pass(name))
    result = PassManager("cse,cse,cse,unroll{factor=2},unroll{factor=4},unroll{factor=2},cse,dce,cse").run(
        parse(TEXT)
    )
    assert runs == ["cse", "cse", "unroll", "unroll", "dce"]
    assert len(result.seconds) == 9
    own: list[str] = []
    declare("own", lambda self, module, ctx: own.append("own") is not None)
    PassManager("own,own").run(parse(TEXT))
    assert own == ["own", "own"]

"""Compiles programs and pipelines into functions on arrays, and runs them: what `import vyre_opt` offers.

compile           `compile` and `run`
executable        what programs and pipelines that can be called have in common
program           `ProgramExecutable`; pipeline: `PipelineExecutable`, by a plan of pipeline_plan
binding           arguments by name: which program, its constants, its buffers, its grid
placement         where the arrays of a call are, in main memory or on a GPU

numeric_kernels   shipped kernels as functions on arrays; text_kernels: those on text; tt_table: tables in cores
planned_function  functions whose calls with like arrays share a plan
operands          arguments of these functions; index_narrowing: integers on a GPU as u32
torch_calls       calls that autograd or torch.compile has to see, which are those of `vyre_opt.torch`

progress          a progress bar on the terminal
gpu_warm_up       opens the GPU in the background while modules are imported
"""

//! The program: everything is in the library's `cli` room.

/// Blocks are made by one thread and given back by another, which is dear with the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    ncclcheck::cli::run()
}

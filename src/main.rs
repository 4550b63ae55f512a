//! The program: everything is in the library's `cli` room.

fn main() -> std::process::ExitCode {
    ncclcheck::cli::run()
}

//! The program: everything is in the library's `cli` room.
fn main() {}

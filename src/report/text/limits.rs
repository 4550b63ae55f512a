//! How much of each section the text report shows, step by step less, so that
//! `text.rs` can make any report fit a screen.

const ALL: usize = usize::MAX;

/// How much of each section is shown; numbers of items or of lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) why: usize,
    pub(crate) proof: usize,
    pub(crate) followed: usize,
    pub(crate) fixes: usize,
    pub(crate) fix_lines: usize,
    pub(crate) others: usize,
    pub(crate) missing: usize,
    pub(crate) names: usize,
    pub(crate) verbose: bool,
}

impl Limits {
    /// How many steps there are.
    pub(crate) const STEPS: usize = 5;

    /// From the fullest screen (0) to the shortest.
    pub(crate) fn step(step: usize) -> Self {
        let pick = |of: [usize; Self::STEPS]| of[step.min(Self::STEPS - 1)];
        Self {
            why: pick([6, 4, 3, 2, 2]),
            proof: pick([5, 4, 3, 2, 1]),
            followed: pick([5, 3, 2, 1, 1]),
            fixes: pick([3, 2, 2, 1, 1]),
            fix_lines: pick([5, 4, 3, 3, 2]),
            others: pick([3, 2, 1, 1, 0]),
            missing: pick([5, 3, 2, 1, 1]),
            names: pick([6, 4, 3, 2, 2]),
            verbose: false,
        }
    }

    /// Everything.
    pub(crate) fn none() -> Self {
        Self {
            why: ALL,
            proof: ALL,
            followed: ALL,
            fixes: ALL,
            fix_lines: ALL,
            others: ALL,
            missing: ALL,
            names: ALL,
            verbose: true,
        }
    }
}

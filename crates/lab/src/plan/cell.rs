//! Cells: one load at one point of the matrix, with names and seeds for its repeats.

use super::keys::background::Background;
use super::keys::load::Load;
use super::keys::path::Path;
use super::keys::target::Target;
use super::point::Point;

/// One load at one point of the matrix, run as one command.
#[derive(Clone, PartialEq, Debug)]
pub struct Cell {
    /// From 1, in the order of the plan.
    pub number: usize,
    /// The axes that concern this load, with their values.
    pub point: Point,
    /// The path there.
    pub path: Path,
    /// The load there.
    pub load: Load,
    /// The targets there.
    pub target: Target,
    /// Competing traffic there.
    pub backgrounds: Vec<Background>,
}

/// Longest slug: a directory name has a number before it and at most 255 bytes.
const SLUG_MAX: usize = 100;

/// FNV-1a: the same hash on every machine and for every build.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Cell {
    /// Its name within the plan, fit for a path: `read-delay-8ms`.
    pub fn slug(&self) -> String {
        let words = format!("{} {}", self.load.name, self.point.words());
        let mut slug = String::new();
        for c in words.chars() {
            match c {
                c if c.is_ascii_alphanumeric() || c == '_' => slug.push(c.to_ascii_lowercase()),
                _ if slug.ends_with('-') => {}
                _ => slug.push('-'),
            }
        }
        let slug = slug.trim_end_matches('-');
        match slug.len() {
            0..=SLUG_MAX => slug.to_owned(),
            // All of it is ASCII.
            _ => format!("{}-{:08x}", &slug[..SLUG_MAX - 9], fnv1a(slug.as_bytes())),
        }
    }

    /// In words: `read at delay 8ms`.
    pub fn words(&self) -> String {
        match self.point.words() {
            place if place.is_empty() => self.load.name.clone(),
            place => format!("{} at {place}", self.load.name),
        }
    }

    /// Seed of the random decisions of a repeat: different for every cell and repeat, the same for every run of the
    /// plan with `seed`.
    pub fn seed(&self, seed: u64, repeat: u32) -> u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let stirred = random.u64(..) ^ ((self.number as u64) << 32) ^ u64::from(repeat);
        // Short, since people read and type it.
        u64::from(fastrand::Rng::with_seed(stirred).u32(1..))
    }
}

//! The only place where randomness comes from.
#![expect(clippy::disallowed_methods, reason = "this is the one door to randomness")]

use std::sync::Mutex;

/// A source of tokens and of jitter.
///
/// Tokens come from the operating system each time: a generator in user space that is copied by
/// `fork` would give two replicas one token. Jitter and back-off may come from a seeded generator,
/// which is what makes a simulation repeatable.
pub struct Random {
    seeded: Mutex<fastrand::Rng>,
    tokens_from_seed: bool,
}

impl Random {
    /// Randomness from the operating system.
    pub fn system() -> Random {
        let seed = u64::from_le_bytes(system_bytes());
        Random { seeded: Mutex::new(fastrand::Rng::with_seed(seed)), tokens_from_seed: false }
    }

    /// Repeatable randomness, tokens included; for tests only.
    pub fn seeded(seed: u64) -> Random {
        Random { seeded: Mutex::new(fastrand::Rng::with_seed(seed)), tokens_from_seed: true }
    }

    /// A repeatable generator, for tests that draw more than tokens and waits.
    pub fn generator(seed: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(seed)
    }

    /// 128 random bits as 32 hex digits.
    pub fn token(&self) -> String {
        let bits = if self.tokens_from_seed {
            self.rng(|rng| rng.u128(..))
        } else {
            u128::from_le_bytes(system_bytes())
        };
        format!("{bits:032x}")
    }

    /// A uniform number in `[0, 1)`.
    pub fn fraction(&self) -> f64 {
        self.rng(fastrand::Rng::f64)
    }

    /// A uniform whole number in `[0, limit]`; 0 for a limit below 0.
    pub fn up_to(&self, limit: i64) -> i64 {
        if limit <= 0 { 0 } else { self.rng(|rng| rng.i64(0..=limit)) }
    }

    fn rng<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.seeded.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

fn system_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without randomness two replicas could share a token: nothing may go on.
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}

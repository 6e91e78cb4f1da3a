//! How the names of options and fields are written in each language.

/// The style of a language's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// `maxLateMs`, as in TypeScript.
    Camel,
    /// `max_late_ms`, as in Python and Rust.
    #[default]
    Snake,
}

impl Naming {
    /// A camelCase name in this style.
    pub fn write(self, camel: &str) -> String {
        match self {
            Naming::Camel => camel.to_owned(),
            Naming::Snake => snake(camel),
        }
    }
}

/// The snake_case of a camelCase name.
pub fn snake(camel: &str) -> String {
    let mut text = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() {
            text.push('_');
            text.push(letter.to_ascii_lowercase());
        } else {
            text.push(letter);
        }
    }
    text
}

/// The camelCase of a snake_case name.
pub fn camel(snake: &str) -> String {
    let mut text = String::with_capacity(snake.len());
    let mut upper = false;
    for letter in snake.chars() {
        if letter == '_' {
            upper = true;
        } else if upper {
            text.push(letter.to_ascii_uppercase());
            upper = false;
        } else {
            text.push(letter);
        }
    }
    text
}

/// `, did you mean "x"?` for the nearest of the known names, or nothing if none is near.
pub fn nearest<S: AsRef<str>>(given: &str, known: &[S]) -> String {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let distances = known.iter().map(|name| {
        (strsim::damerau_levenshtein(&plain(given), &plain(name.as_ref())), name.as_ref())
    });
    match distances.min() {
        Some((distance, name)) if distance <= (name.len() / 3).max(2) => {
            format!(", did you mean {name:?}?")
        }
        _ => String::new(),
    }
}

//! What both languages share: how names are written, and host objects as trait objects.

pub mod names;

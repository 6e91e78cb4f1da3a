//! From a schedule to slots.

//! The cases that every driver has to pass.

//! A runtime whose commands are local processes.

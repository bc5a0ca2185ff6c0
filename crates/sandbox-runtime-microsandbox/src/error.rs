pub use sandbox_image_store::from_state;

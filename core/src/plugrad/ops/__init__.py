"""The ops: what people call, one module per family. `plugrad` itself re-exports them."""

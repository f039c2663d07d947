"""plugrad's conformance kit brings the options, and the backend that tests run on."""

pytest_plugins = ["plugrad.testing.plugin"]

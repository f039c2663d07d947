"""Load plugrad's conformance kit, which provides the options and the backend under test."""

pytest_plugins = ["plugrad.testing.plugin"]

"""A headless browser, driven through a pipe: the DevTools protocol without a library.

https://chromedevtools.github.io/devtools-protocol/ describes the methods. Messages are JSON, each followed
by a zero byte; the browser reads them from file descriptor 3 and writes to 4.
"""

import json
import os
import shutil
import subprocess
from base64 import b64decode
from fcntl import F_DUPFD, fcntl
from pathlib import Path
from tempfile import TemporaryDirectory

BROWSER_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """Return the path of an installed browser, or None."""
    return next(filter(None, map(shutil.which, BROWSER_COMMANDS)), None)


class Browser:
    """A running browser with one page."""

    def __init__(self, program: str) -> None:
        self._profile = TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def assign_pipe_numbers() -> None:
            """Duplicate the pipe ends to file descriptors 3 and 4, without overwriting one by the other."""
            read, write = (fcntl(end, F_DUPFD, 10) for end in (to_read, to_write))
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, *BROWSER_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=assign_pipe_numbers,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._rest = b""
        self._number = 0
        self._session = ""
        self.errors: list[str] = []
        """What pages have written to the console as warnings and errors, and exceptions, since `open`."""
        self.is_loaded = False
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict:
        """Call a method of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _message(self) -> dict:
        """Return the next message; record the events of the page in it."""
        while b"\0" not in self._rest:
            read = os.read(self._read, 1 << 20)
            assert read, "the browser has ended"
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(text)
        params = message.get("params", {})
        match message.get("method"):
            case "Page.loadEventFired":
                self.is_loaded = True
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("warning", "error", "assert"):
                self.errors.append(str([a.get("value") for a in params["args"]]))
            case "Log.entryAdded" if params["entry"]["level"] in ("warning", "error"):
                self.errors.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.requestWillBeSent" if params["request"]["url"].startswith("http"):
                self.errors.append(f"asks the network for {params['request']['url']}")
        return message

    def open(
        self, page: Path, fragment: str = "", *, width: int = 1280, dark: bool = False
    ) -> None:
        """Load a page from a file, without a network, in a window of a width."""
        self.errors.clear()
        self.is_loaded = False
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Page.navigate", url="about:blank"
        )  # a change of the fragment alone loads nothing
        while not self.is_loaded:
            self._message()
        self.is_loaded = False
        self.errors.clear()
        self.call("Page.navigate", url=page.resolve().as_uri() + fragment)
        while not self.is_loaded:
            self._message()

    def evaluate(self, expression: str) -> object:
        """Return the value of a JavaScript expression; promises are awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, height: int = 900) -> None:
        """Write a PNG file of the window; a larger height than the window's shows more of the page."""
        width = self.evaluate("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=height > 900)
        path.write_bytes(b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        self.call("Browser.close")
        self._process.wait(30)
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

import { expect, test } from "bun:test";
import { browserOf } from "./browser_name.ts";

const CHROME = "Mozilla/5.0 (X11; Linux i686) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";

test.each([
  [CHROME, "Chrome 142 on Linux"],
  [`${CHROME} Edg/142.0.3595.53`.replace("X11; Linux i686", "Windows NT 10.0; Win64; x64"), "Edge 142 on Windows"],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox 145 on macOS"],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Mobile/15E148 Safari/604.1",
    "Safari 26 on iPhone",
  ],
  ["curl/8.5.0", "curl/8.5.0"],
  ["x".repeat(200), `${"x".repeat(59)}…`],
  [null, "Unknown browser"],
])("the user agent %j is shown as %j", (agent, shown) => {
  expect(browserOf(agent)).toBe(shown);
});

import { describe, expect, test } from "bun:test";
import { decodeBase64 } from "./files.ts";

describe("base64", () => {
  const bytes = (text: string, most = 100) => {
    const decoded = decodeBase64(text, most);
    return typeof decoded === "string" ? decoded : Buffer.from(decoded).toString();
  };
  test.each([
    ["plain", "aGVsbG8=", "hello"],
    ["without padding", "aGVsbG8", "hello"],
    ["with white space", " aGVs\nbG8= \r\n", "hello"],
    ["of a data: URL", "data:image/png;base64,aGVsbG8=", "hello"],
    ["of a data: URL with parameters", "data:image/png;charset=x;base64,aGVsbG8=", "hello"],
    ["of URLs", "_-8", Buffer.from("_-8", "base64").toString()],
    ["empty", "", "malformed"],
    ["white space alone", "  ", "malformed"],
    ["another alphabet", "aGVs*G8=", "malformed"],
    ["a digit too many", "aGVsb", "malformed"],
    ["padding in the middle", "aGVs=bG8=", "malformed"],
    ["wrong padding", "aGVsbG8==", "malformed"],
    ["a data: URL that is not base64", "data:text/plain,hello", "malformed"],
    ["a data: URL without content", "data:image/png;base64,", "malformed"],
  ])("%s", (_name, text, expected) => expect(bytes(text)).toBe(expected));

  test("the limit is that of the bytes, to the byte", () => {
    for (const size of [98, 99, 100, 101, 102, 103])
      expect(typeof decodeBase64(Buffer.alloc(size).toString("base64"), 100)).toBe(size <= 100 ? "object" : "string");
    expect(decodeBase64("*".repeat(500), 100)).toBe("too_large");
  });
});

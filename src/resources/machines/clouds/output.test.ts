import { expect, test } from "bun:test";
import { SERVING_BYTES } from "../../../lib/json/outside.ts";
import { readAddress, readNames } from "./output.ts";

const sent = (text: string) => ({ body: new TextEncoder().encode(text), truncated: false });
const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDTJGT8SqB+nK2gvy3X7Q75aLQjS8qPyTqxttP1aPRv2";

test("the last line of `up` is the address, with or without user, port and host key", () => {
  const plain = { user: null, address: "192.0.2.7", port: 22, hostKey: null };
  expect(readAddress(sent("192.0.2.7\n"))).toEqual(plain);
  expect(readAddress(sent("i-0abc\ncreating…\n\n ubuntu@192.0.2.7:2222 \n\n"))).toEqual({
    ...plain,
    user: "ubuntu",
    port: 2222,
  });
  expect(readAddress(sent("root@[2001:db8::1]:22"))).toEqual({ ...plain, user: "root", address: "2001:db8::1" });
  expect(readAddress(sent(`me@gpu.example.com ${KEY}`))).toMatchObject({ address: "gpu.example.com", hostKey: KEY });
});

test("an output of `up` that is no address is refused, and so is one that ssh would take for an option", () => {
  for (const text of ["-oProxyCommand=x@h", "a b c@h", "me@h:0", "me@h:99999", "me@-x", "-x@h"])
    expect(() => readAddress(sent(text))).toThrow(/the output of the command `up`/);
  expect(() => readAddress(sent(""))).toThrow(/expected USER@ADDRESS/);
  expect(() => readAddress({ body: new Uint8Array(), truncated: true })).toThrow(/more than/);
});

test("`list` prints names in any layout, up to a limit", () => {
  expect(readNames(sent("a\n b\tc\n\n"))).toEqual(["a", "b", "c"]);
  expect(readNames(sent(""))).toEqual([]);
  expect(() => readNames(sent("x".repeat(201)))).toThrow(/the output of the command `list`/);
  expect(() => readNames(sent("x ".repeat(10_001)))).toThrow(/cannot be used/);
  expect(() => readNames(sent("x".repeat(SERVING_BYTES + 1)))).toThrow(/more than/);
});

import { expect, test } from "bun:test";
import { formatListen, parseListen } from "./listen.ts";

test.each([
  ["127.0.0.1:7070", "127.0.0.1", 7070],
  ["0.0.0.0:0", "0.0.0.0", 0],
  ["localhost:65535", "localhost", 65535],
  ["[::]:7070", "::", 7070],
  ["[::1]:80", "::1", 80],
] as const)("%s is a listen address and prints back", (text, hostname, port) => {
  expect(parseListen(text)).toEqual({ hostname, port });
  expect(formatListen({ hostname, port })).toBe(text);
});

test.each([
  "",
  "7070",
  ":7070",
  "127.0.0.1",
  "127.0.0.1:",
  "127.0.0.1:65536",
  "::1:80",
  "[1.2.3.4]:1",
  "http://a:1",
  "a b:1",
  "a:-1",
])("%p is not a listen address", (text) => expect(parseListen(text)).toBeUndefined());

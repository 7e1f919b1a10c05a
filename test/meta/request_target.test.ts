import { expect, test } from "bun:test";
import { read, sources } from "./imports.ts";

const READER = "src/lib/net/request_target.ts";
/** A request's own address, in the ways that code can take it. Addresses of other servers have other names. */
const FORMS = [/\b(?:\w*[rR]equest|req)\.url\b/, /\{[^{}]*\burl\b[^{}]*\}(?:: Request\b|\s*=\s*\w*[rR]equest\b)/];
const readsAddress = (text: string) => FORMS.some((form) => form.test(text));

test("S10: only one file reads the address of a request", () => {
  expect(sources.filter((file) => file !== READER && readsAddress(read(file)))).toEqual([]);
  expect(readsAddress("new URL(request.url).pathname")).toBe(true);
  expect(readsAddress("const { method, url } = request;")).toBe(true);
  expect(readsAddress("({ url }: Request) => url")).toBe(true);
  expect(readsAddress("question.request.url")).toBe(true);
});

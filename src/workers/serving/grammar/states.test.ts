import { expect, test } from "bun:test";
import { GrammarPlace, GrammarStates } from "./states.ts";

function keysOf(states: GrammarStates, text: string): string[] {
  const place = new GrammarPlace(states);
  return Array.from(new TextEncoder().encode(text), (byte) => {
    place.take(Uint8Array.of(byte));
    return place.key;
  });
}

test("a string has one state for all its characters, and a counted one has a state for each", () => {
  const open = new GrammarStates('root ::= "\\"" [a-zé]* "\\""');
  expect(new Set(keysOf(open, '"abcdefgh')).size).toBe(1);
  const counted = new GrammarStates('root ::= "\\"" [a-z]{0,3} "\\""');
  expect(new Set(keysOf(counted, '"abc')).size).toBe(4);
  expect(() => keysOf(counted, '"abcd')).toThrow("does not allow");
});

test("the same rest gives the same state, another rest another one", () => {
  const states = new GrammarStates('root ::= ("a" | "b") tail | "c" "x"\ntail ::= "x" "y"?');
  const last = (text: string) => keysOf(states, text).at(-1);
  expect(last("a")).toBe(last("b"));
  expect(last("a")).not.toBe(last("c"));
  expect(last("ax")).not.toBe(last("cx"));
});

test("nested values are states of their own, and depth counts", () => {
  const states = new GrammarStates('root ::= value\nvalue ::= "[" (value ("," value)*)? "]" | "1"');
  const last = (text: string) => keysOf(states, text).at(-1);
  expect(last("[1,1,1")).toBe(last("[1"));
  expect(last("[[1")).not.toBe(last("[1"));
  expect(last("[[]")).toBe(last("[1"));
});

test("a character in several bytes has a key for each beginning", () => {
  const states = new GrammarStates("root ::= [é漢]*");
  const [first, whole] = keysOf(states, "é");
  expect(first).not.toBe(whole);
  expect(keysOf(states, "é漢").at(-1)).toBe(whole!);
  expect(() => new GrammarPlace(states).take(Uint8Array.of(0xff))).toThrow("not UTF-8");
});

test("grammars with comments, unknown rules and endless ones are refused or end", () => {
  expect(() => new GrammarStates('root ::= "a" # note')).toThrow();
  expect(() => new GrammarStates("root ::= other")).toThrow("undefined rule");
  const empty = new GrammarStates('root ::= (""* "a"?)* "b"');
  expect(keysOf(empty, "aaab").length).toBe(4);
});

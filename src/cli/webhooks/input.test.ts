import { expect, test } from "bun:test";
import { parseMessage } from "./input.ts";

const parse = (text: string) => {
  const message = parseMessage(new TextEncoder().encode(text));
  return message && [message.headers.get("webhook-id"), new TextDecoder().decode(message.body)];
};

test("a request is its headers, an empty line, and a body that keeps every byte", () => {
  const body = '{"a":"é\n\n"}\r\n';
  expect(parse(`POST /hook HTTP/1.1\r\nHost: x\r\nWebhook-Id:  evt_1 \r\n\r\n${body}`)).toEqual(["evt_1", body]);
  expect(parse(`webhook-id: evt_1\n\n${body}`)).toEqual(["evt_1", body]);
  expect(parse("webhook-id: evt_1\r\n\r\n")).toEqual(["evt_1", ""]);
});

test("a body alone is no request", () => {
  expect([parse('{"a":1}'), parse('{\n"a":1\n}\n\n{}'), parse("")]).toEqual([undefined, undefined, undefined]);
});

test("any name a header may have is one, and any bytes are a value: what is wrong with them the check says", () => {
  expect(parse("x_a.b!: 1\nx: \0\nWEBHOOK-ID: evt_1\n\n{}")).toEqual(["evt_1", "{}"]);
});

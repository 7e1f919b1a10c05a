import { describe, expect, test } from "bun:test";
import { aside } from "../../../test/aside/aside.ts";
import { cpuMsOf } from "../../../test/cost.ts";
import { createLineReader, RowError } from "./lines.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (body: Uint8Array) => new TextDecoder().decode(body);

function read(input: string | Uint8Array, { chunk = 7, maxRowBytes = 1 << 20 } = {}) {
  const reader = createLineReader({ maxRowBytes, format: undefined });
  const all = typeof input === "string" ? bytes(input) : input;
  const out: string[] = [];
  for (let at = 0; at < all.length; at += chunk)
    for (const { body } of reader.push(all.slice(at, at + chunk))) out.push(text(body));
  for (const { body } of reader.end()) out.push(text(body));
  return { rows: reader.rows, format: reader.format, body: out.join("") };
}
const refusal = (input: string | Uint8Array, options = {}) => {
  try {
    read(input, options);
    return "taken";
  } catch (error) {
    if (!(error instanceof RowError)) throw error;
    return error.message;
  }
};
const row = (value: string) => `{"prompt":"p","x":${value}}\n`;

describe("lines", () => {
  test("come out unchanged for every division into chunks", () => {
    const lines = `{"prompt":"a", "n": 1.50}\n{"prompt":"ü😀"}\n{"prompt":[{"role":"user","content":"x"}]}\n`;
    for (const chunk of [1, 2, 3, 5, 8, 1000])
      expect(read(lines, { chunk })).toEqual({ rows: 3, format: "prompt", body: lines });
  });

  test("the reader repairs a missing last line feed, CRLF, blanks around a row, blank lines and a byte order mark", () => {
    const want = '{"prompt":"a"}\n{"prompt":"b"}\n';
    for (const given of [
      '{"prompt":"a"}\n{"prompt":"b"}',
      '{"prompt":"a"}\r\n{"prompt":"b"}\r\n',
      ' {"prompt":"a"}\t\n\n   \n{"prompt":"b"}\n\n',
      '\ufeff{"prompt":"a"}\n{"prompt":"b"}\n',
    ])
      expect(read(given)).toMatchObject({ rows: 2, body: want });
  });

  test("many pieces add up to the same bytes", () => {
    const lines = Array.from({ length: 20_000 }, (_, i) => `{"prompt":"row ${i} ${"x".repeat(i % 50)}"}\n`).join("");
    const found = read(lines, { chunk: 65_536 });
    expect(found.rows).toBe(20_000);
    expect(found.body === lines).toBe(true);
  });

  test("the number of a bad line counts blank ones, as an editor does", () => {
    expect(refusal('{"prompt":"a"}\n\n{"prompt":\n')).toStartWith("Line 3: it is not valid JSON");
    const many = '{"prompt":"a"}\n'.repeat(30_000);
    expect(refusal(`${many}[1]\n`, { chunk: 65_536 })).toStartWith("Line 30001: it must be a JSON object");
    const cut = Uint8Array.from([...bytes(many), 0x7b, 0xff, 0x7d, 10]);
    expect(refusal(cut, { chunk: 65_536 })).toBe("Line 30001: it is not valid UTF-8");
  });

  test("a line that is too long is refused before it is whole", () => {
    expect(refusal(`{"prompt":"a"}\n{"prompt":"${"x".repeat(5000)}`, { maxRowBytes: 1000 })).toBe(
      "Line 2: it is longer than 1000 bytes",
    );
    expect(refusal(`{"prompt":"${"x".repeat(1000)}"}\n`, { maxRowBytes: 1000, chunk: 5000 })).toBe(
      "Line 1: it is longer than 1000 bytes",
    );
    expect(refusal(`{"prompt":"${"x".repeat(986)}"}\n`, { maxRowBytes: 1000, chunk: 5000 })).toBe("taken");
  });

  test("the limit of a line does not depend on the chunks: its line end and a byte order mark do not count", () => {
    const longest = `{"prompt":"${"x".repeat(987)}"}`; // 1000 bytes
    for (const given of [`${longest}\r\n`, `\ufeff${longest}\r\n`, `\ufeff${longest}`])
      for (const chunk of [1, 7, 1001, 1003, 1004, 1005, 5000])
        expect(refusal(given, { maxRowBytes: 1000, chunk })).toBe("taken");
    for (const chunk of [1, 1001, 1003, 5000]) {
      expect(refusal(`${longest} \n`, { maxRowBytes: 1000, chunk })).toBe("Line 1: it is longer than 1000 bytes");
      expect(refusal(`${" ".repeat(1001)}\n`, { maxRowBytes: 1000, chunk })).toBe(
        "Line 1: it is longer than 1000 bytes",
      );
    }
  });

  test("a million blanks in a line without a row cost no more than reading them", async () => {
    const blanks = `[${" ".repeat(1_000_000)}]`;
    const read = () => expect(refusal(blanks, { chunk: 65_536, maxRowBytes: 1 << 21 })).toContain("a JSON object");
    expect(await cpuMsOf(read)).toBeLessThan(10_000); // trying each blank as the last would take 20 minutes
  });

  test("a row that arrives byte by byte needs little more memory than its size", async () => {
    const { growthBytes } = await aside<{ growthBytes: number }>("bytewise_row");
    expect(growthBytes).toBeLessThan(64 << 20);
  });

  test("values that no reader can keep are refused", () => {
    expect(refusal(row('"\\ud800"'))).toContain("half a character");
    expect(refusal(row('{"\\udfff":1}'))).toContain("half a character");
    expect(refusal(row('"\\ud83d\\ude00"'))).toBe("taken");
    expect(refusal(row("1e400"))).toContain("too large for a double");
    expect(refusal(row(`1${"0".repeat(400)}`))).toContain("too large for a double");
    expect(refusal(row("1e-400"))).toBe("taken");
    expect(refusal(row("[".repeat(63) + "]".repeat(63)))).toBe("taken");
    expect(refusal(row("[".repeat(64) + "]".repeat(64)))).toContain("nested more than 64");
    expect(refusal(row("[".repeat(100_000)))).toContain("not valid JSON");
    expect(refusal(row("[".repeat(100_000) + "]".repeat(100_000)))).toContain("nested more than 64");
  });

  test("duplicate keys are kept as sent, and the last one counts", () => {
    const twice = '{"prompt":"a","prompt":"b"}\n';
    expect(read(twice).body).toBe(twice);
    expect(refusal('{"prompt":"a","prompt":7}\n')).toContain("prompt must be a string");
  });

  test("the first row decides the format and the others follow it", () => {
    const formats: [string, string][] = [
      ['{"prompt":"a","chosen":"b","rejected":"c"}', "preference"],
      ['{"prompt":"a","completion":"b"}', "completion"],
      ['{"messages":[{"role":"user","content":"x"}]}', "chat"],
      ['{"prompt":"a","answer":4}', "prompt"],
    ];
    for (const [line, format] of formats) expect(read(line).format).toBe(format as never);
    expect(refusal(`${formats[0]![0]}\n{"prompt":"a","chosen":"b"}`)).toBe(
      "Line 2: rejected is missing. Every row of the format preference has prompt, chosen and rejected",
    );
    expect(refusal(`${formats[2]![0]}\n{"prompt":"a"}`)).toBe("taken");
    expect(refusal('{"messages":[{"role":"user"}]}')).toContain("messages[0].content must be a string");
    expect(refusal('{"messages":[]}')).toContain("empty list");
    expect(refusal('{"prompt":[{"content":"x"}]}')).toContain("prompt[0].role");
    expect(refusal('{"question":"a"}')).toContain("prompt is missing");
  });

  test("F1 role typos: a message whose role no template knows is refused with its line and the role meant", () => {
    const talk = (role: string) => `{"messages":[{"role":"user","content":"x"},{"role":"${role}","content":"y"}]}`;
    const roles = "system, developer, user, assistant, tool, function";
    expect(refusal(`${talk("assistant")}\n${talk("assistnt")}`)).toBe(
      `Line 2: messages[1].role is "assistnt", but must be one of ${roles}; did you mean assistant?`,
    );
    expect(refusal(talk("Human"))).toEndWith("did you mean user?");
    expect(refusal(talk("narrator"))).toEndWith(`must be one of ${roles}`);
    for (const role of roles.split(", ")) expect(refusal(talk(role))).toBe("taken");
    const first = '{"role":"usr","content":"x"}';
    expect(refusal(`{"prompt":[${first}]}`)).toContain('prompt[0].role is "usr"');
    expect(refusal(`{"prompt":"a","completion":[${first}]}`)).toContain('completion[0].role is "usr"');
    expect(refusal(`{"prompt":"a","chosen":[${first}],"rejected":"b"}`)).toContain('chosen[0].role is "usr"');
    expect(refusal('{"messages":[{"from":"human","value":"x"}]}')).toContain("rename them to role and content");
  });

  test("F11 other file formats: the refusal names the format and says how to make JSON lines of it", () => {
    const cases: [string | Uint8Array, string][] = [
      ["question,answer\n1,2\n", "Line 1: the file looks like CSV with the columns question, answer"],
      ['"question"\t"answer"\n', "Line 1: the file looks like CSV with the columns question, answer"],
      ['[\n  {"prompt": "a"}\n]\n', "Line 1: the file is one JSON array"],
      ['{\n  "prompt": "a"\n}\n', "Line 1: the file is JSON with line breaks inside an object"],
      [bytes("PAR1\u0015\u0004"), "Line 1: the file is a Parquet file"],
      [Uint8Array.of(0x1f, 0x8b, 8, 0, 0), "Line 1: the file is a gzip archive"],
    ];
    for (const [given, want] of cases)
      for (const chunk of [1, 1000]) expect(refusal(given, { chunk })).toStartWith(want);
    const long = `[${'{"prompt":"a"},'.repeat(200)}{"prompt":"b"}]`;
    expect(refusal(long, { maxRowBytes: 1000 })).toStartWith("Line 1: the file is one JSON array");
    expect(refusal("hello, world. How are you?\n")).toStartWith("Line 1: it is not valid JSON");
  });
});

import { describe, expect, test } from "bun:test";
import { chooseFiles } from "./choose.ts";

const file = (path: string, size = 1) => ({ path, size, sha256: null });
const files = [
  file("m-F16.gguf", 9),
  file("m-Q8_0.gguf", 5),
  file("m-q4_k_m.gguf", 3),
  file("m-Q2_K.gguf", 1),
  file("x.txt"),
];
const choose = (choice?: string, from = files) => chooseFiles("a/b", from, choice).main;

describe("which file a name means", () => {
  test("the usual quantization, the one that was named in any case, or the very file", () => {
    expect(choose()).toBe("m-q4_k_m.gguf");
    expect(choose("q8_0")).toBe("m-Q8_0.gguf");
    expect(choose("m-Q2_K.gguf")).toBe("m-Q2_K.gguf");
    expect(choose(undefined, [file("b.gguf", 7), file("a.gguf", 8)])).toBe("b.gguf");
  });

  test("what is not there, or no model at all is said with what there is", () => {
    expect(() => choose("Q6_K")).toThrow("a/b has no file for Q6_K: it has m-F16.gguf");
    expect(() => choose(undefined, [file("mmproj-F16.gguf")])).toThrow("it has no model");
    expect(() => choose(undefined, [file("model.safetensors"), file("README.md")])).toThrow("it has .safetensors, .md");
    expect(() => choose(undefined, [file("../../etc/x.gguf")])).toThrow("no GGUF file");
    expect(() => choose(undefined, [file(`${"x".repeat(251)}.gguf`)])).toThrow("no GGUF file");
    expect(() => choose(undefined, [file("adapter_config.json"), file("adapter_model.safetensors")])).toThrow("PEFT");
  });

  test("a list that lies does not become a long error", () => {
    const long = Array.from({ length: 50 }, (_, i) => file(`${i}.${"y".repeat(100_000)}`));
    const message = (files: ReturnType<typeof file>[]) => {
      try {
        return choose("Q6_K", files);
      } catch (error) {
        return (error as Error).message;
      }
    };
    expect(message(long).length).toBeLessThan(600);
    const named = Array.from({ length: 50 }, (_, i) => file(`${"z/".repeat(5)}${i}${"z".repeat(200)}.gguf`));
    expect(message(named).length).toBeLessThan(3_500);
  });
});

describe("a model in several parts", () => {
  const part = (i: number, count = 3) => `Q8_0/m-Q8_0-0000${i}-of-0000${count}.gguf`;
  const parts = [file(part(3), 2), file(part(1), 2), file(part(2), 2)];

  test("all parts in order, by its quantization or by any of its names", () => {
    const expected = { kind: "parts", main: part(1), size: 6, files: [1, 2, 3].map((i) => file(part(i), 2)) };
    for (const choice of [undefined, "Q8_0", part(2), "Q8_0/m-Q8_0.gguf"])
      expect(chooseFiles("a/b", parts, choice)).toMatchObject(expected);
    expect(choose(undefined, [...parts, file("m-Q4_K_M.gguf", 9)])).toBe("m-Q4_K_M.gguf");
  });

  test("a part that the repository does not have is named", () => {
    expect(() => choose(undefined, parts.slice(1))).toThrow(`a/b is incomplete: it has no ${part(3)}`);
    expect(() => choose(undefined, [file("m-00001-of-99999.gguf")])).toThrow("too many");
  });
});

describe("a repository without GGUF", () => {
  const small = ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"].map((name) =>
    file(name),
  );
  const INDEX = "model.safetensors.index.json";
  const shard = (i: number) => `model-0000${i}-of-00002.safetensors`;
  const names = (from: ReturnType<typeof file>[], choice?: string) =>
    chooseFiles("a/b", from, choice).files.map(({ path }) => path);

  test("the folder's own files, small ones first; nothing that can run code, and no weights twice", () => {
    const others = ["pytorch_model.bin", "modeling_x.py", "m.pt", "consolidated.safetensors", "onnx/x.safetensors"];
    const whole = [file("model.safetensors", 9), ...small, ...others.map((name) => file(name))];
    expect(names(whole)).toEqual([...small.map(({ path }) => path).sort(), "model.safetensors"]);
    expect(chooseFiles("a/b", whole, undefined)).toMatchObject({ kind: "folder", main: "model.safetensors", size: 13 });
    const sharded = [file(shard(2)), file(shard(1)), file("model.safetensors"), file(INDEX), ...small];
    expect(names(sharded)).toEqual([...small.map(({ path }) => path), INDEX].sort().concat(shard(1), shard(2)));
    expect(choose(undefined, sharded)).toBe(INDEX);
  });

  test("a quantization after the colon is made by the conversion", () => {
    const whole = [file("model.safetensors"), ...small];
    expect(chooseFiles("a/b", whole, "q8_0").quantize).toBe("Q8_0");
    expect(() => choose("IQ2_XS", whole)).toThrow(
      "a/b has no GGUF file for IQ2_XS, only safetensors: use a/b, or one of",
    );
  });

  test("what is missing is named before anything is downloaded", () => {
    expect(() => choose(undefined, [file(shard(1)), file(INDEX), ...small])).toThrow(`it has no ${shard(2)}`);
    expect(() => choose(undefined, [file("model.safetensors"), file("config.json")])).toThrow("no tokenizer.json");
  });
});

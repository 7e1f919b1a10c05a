import { describe, expect, test } from "bun:test";
import { chooseFile } from "./hub.ts";

describe("which file a name means", () => {
  const file = (path: string, size = 1) => ({ path, size, sha256: null });
  const files = [
    file("m-F16.gguf", 9),
    file("m-Q8_0.gguf", 5),
    file("m-q4_k_m.gguf", 3),
    file("m-Q2_K.gguf", 1),
    file("x.txt"),
  ];
  const choose = (choice?: string, from = files) => chooseFile("a/b", from, choice).path;

  test("the usual quantization, the one that was named in any case, or the very file", () => {
    expect(choose()).toBe("m-q4_k_m.gguf");
    expect(choose("q8_0")).toBe("m-Q8_0.gguf");
    expect(choose("m-Q2_K.gguf")).toBe("m-Q2_K.gguf");
    expect(choose(undefined, [file("b.gguf", 7), file("a.gguf", 8)])).toBe("b.gguf");
  });

  test("what is not there, in parts, or no GGUF at all is said with what there is", () => {
    expect(() => choose("Q6_K")).toThrow("a/b has no file for Q6_K: it has m-F16.gguf");
    expect(() => choose(undefined, [file("m-00001-of-00002.gguf")])).toThrow("several parts");
    expect(() => choose(undefined, [file("model.safetensors"), file("README.md")])).toThrow("it has .safetensors, .md");
    expect(() => choose(undefined, [file("../../etc/x.gguf")])).toThrow("no GGUF file");
    expect(() => choose(undefined, [file(`${"x".repeat(251)}.gguf`)])).toThrow("no GGUF file");
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

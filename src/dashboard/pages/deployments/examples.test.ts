import { expect, test } from "bun:test";
import { requestIn } from "./examples.ts";

const HOSTILE = `it's "quoted" \\ $(id) \`x\` \${y}`;
const request = { base: "http://verk.example/v1", model: HOSTILE, key: undefined };

test("a name with quotes stays a text in each language", async () => {
  const curl = requestIn("curl", request);
  const shell = Bun.spawn(["sh", "-c", `curl() { printf '%s\\n' "$@"; }; ${curl}`], {
    stdout: "pipe",
    env: { VERK_API_KEY: "vk_of_the_caller" },
  });
  const said = (await new Response(shell.stdout).text()).trimEnd().split("\n");
  expect(JSON.parse(said.at(-1) ?? "").model).toBe(HOSTILE);
  expect(said).toContain("Authorization: Bearer vk_of_the_caller");
  for (const language of ["python", "js"] as const)
    expect(requestIn(language, request)).toContain(JSON.stringify(HOSTILE));
});

test("a key that was just made is in the code; without one each language reads the variable", () => {
  for (const language of ["curl", "python", "js"] as const) {
    expect(requestIn(language, request)).toContain("VERK_API_KEY");
    const withKey = requestIn(language, { ...request, key: "vk_new" });
    expect([withKey.includes("vk_new"), withKey.includes("VERK_API_KEY")]).toEqual([true, false]);
  }
});

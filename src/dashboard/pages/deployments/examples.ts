/** A chat request to a deployment as code. Pure. */
import type { CodeLanguage } from "../../kit/code/tokens.ts";

export const LANGUAGES = [
  ["curl", "curl"],
  ["python", "Python"],
  ["js", "JavaScript"],
] as const;
export type Language = (typeof LANGUAGES)[number][0];

/** A shell has comments and texts as Python has. */
export const COLOURS: Readonly<Record<Language, CodeLanguage>> = {
  curl: "python",
  python: "python",
  js: "typescript",
};

type Request = {
  base: string;
  model: string;
  /** Undefined: the code reads it from the variable VERK_API_KEY. */
  key: string | undefined;
};

/** A name is text of a user: it stays a text in each language. JSON texts are texts in Python and JavaScript too. */
export function requestIn(language: Language, { base, model, key }: Request): string {
  const [address, name] = [JSON.stringify(base), JSON.stringify(model)];
  const keyOr = (variable: string) => (key === undefined ? variable : JSON.stringify(key));
  if (language === "python")
    return `# pip install openai
${key === undefined ? "import os\n" : ""}from openai import OpenAI

client = OpenAI(base_url=${address}, api_key=${keyOr('os.environ["VERK_API_KEY"]')})
answer = client.chat.completions.create(
    model=${name},
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`;
  if (language === "js")
    return `// npm install openai
import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${address}, apiKey: ${keyOr("process.env.VERK_API_KEY")} });
const answer = await client.chat.completions.create({
  model: ${name},
  messages: [{ role: "user", content: "Hello" }],
});
console.log(answer.choices[0].message.content);`;
  const body = JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }] });
  return `curl -s ${base}/chat/completions \\
  -H "Authorization: Bearer ${key ?? "$VERK_API_KEY"}" \\
  -H 'content-type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'`;
}

/** Calls that programs written for OpenAI or llama.cpp make, each with what they expect of the answer. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
export type Json = any;
export type Answer = { status: number; body: Json; headers: Headers };
export type Post = {
  (path: string, json?: unknown, headers?: Record<string, string>): Promise<Answer>;
  /** Reads the first piece of a stream, then closes the connection. */
  leave: (path: string, json: unknown) => Promise<void>;
};
/** True: the answer is as expected. */
export type Case = [name: string, run: (post: Post) => Promise<boolean>];

export const USER = [{ role: "user", content: "What is 7 + 5?" }];
export const CHAT = "/v1/chat/completions";
export const TEXT = "/v1/completions";
export const VECTORS = "/v1/embeddings";
export const base = { model: "tiny", max_tokens: 8, temperature: 0 };
export const question = { ...base, messages: USER };
export const begun = { ...base, prompt: "Once upon" };
export const json = (schema: unknown) => ({ ...question, max_tokens: 24, response_format: schema });
export const chunksOf = (text: string): Json[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));

export const ok =
  (path: string, body: unknown, check: (body: Json) => boolean = () => true) =>
  async (post: Post) => {
    const answer = await post(path, body);
    return answer.status === 200 && check(answer.body);
  };
export const refused =
  (path: string, body: unknown, check: (error: Json) => boolean = () => true) =>
  async (post: Post) => {
    const { status, body: answer } = await post(path, body);
    return status === 400 && answer.error.type === "invalid_request_error" && check(answer.error);
  };
export const content = (body: Json): string => body.choices[0].message.content;
export const said = (body: Json): string => body.choices[0].text;
export const stream = (path: string, body: object, check: (chunks: Json[]) => boolean) =>
  ok(path, { ...body, stream: true }, (text) => check(chunksOf(text)) && text.endsWith("data: [DONE]\n\n"));
export const streamed = (chunks: Json[]) => chunks.map((each) => each.choices[0]?.delta.content ?? "").join("");
export const same = async (post: Post, path: string, body: object, read: (body: Json) => string) =>
  read((await post(path, body)).body);
export const get =
  (path: string, check: (body: Json) => boolean = () => true) =>
  async (post: Post) => {
    const { status, body } = await post(`GET ${path}`);
    return status === 200 && check(body);
  };
export const exists =
  (path: string, body: object = {}) =>
  async (post: Post) => {
    const { status } = await post(path, body);
    return status !== 404 && status !== 405 && status < 500;
  };

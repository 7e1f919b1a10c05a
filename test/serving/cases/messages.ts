/** The format of Anthropic. */
import { type Case, type Json, ok, USER } from "./kit.ts";

const PATH = "/v1/messages";
const question = { model: "tiny", max_tokens: 16, temperature: 0, messages: USER };
const TOOL = {
  name: "get_weather",
  input_schema: { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] },
};
const eventsOf = (text: string): Json[] =>
  text
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice(6)));
const promptOf = ({ input_tokens, cache_read_input_tokens }: Json): number => input_tokens + cache_read_input_tokens;
const types = (events: Json[]) => events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);

export const MESSAGES: Case[] = [
  [
    "POST /v1/messages",
    ok(
      PATH,
      question,
      ({ type, content, stop_reason, usage }) =>
        type === "message" && content[0].text === "12" && stop_reason === "end_turn" && usage.output_tokens > 0,
    ),
  ],
  [
    "POST /v1/messages/count_tokens",
    async (post) => {
      const { input_tokens: counted } = (await post(`${PATH}/count_tokens`, { model: "tiny", messages: USER })).body;
      return counted > 3 && counted === promptOf((await post(PATH, question)).body.usage);
    },
  ],
  [
    "a streamed message",
    ok(PATH, { ...question, stream: true, system: [{ type: "text", text: "Be brief." }] }, (text) => {
      const events = eventsOf(text);
      const order =
        "message_start,content_block_start,content_block_delta,content_block_stop,message_delta,message_stop";
      return types(events).join() === order && promptOf(events.at(-2).usage) > 0;
    }),
  ],
  [
    "cached tokens are counted once, and a stream begins with the tokens of its prompt",
    async (post) => {
      const { input_tokens: counted } = (await post(`${PATH}/count_tokens`, { model: "tiny", messages: USER })).body;
      await post(PATH, question);
      const again = (await post(PATH, question)).body.usage;
      const begin = eventsOf((await post(PATH, { ...question, stream: true })).body)[0].message.usage;
      const isOnce = promptOf(again) === counted && again.cache_read_input_tokens > 0;
      return isOnce && again.cache_creation_input_tokens === 0 && promptOf(begin) === counted;
    },
  ],
  [
    "a stop sequence is named, whole and streamed",
    async (post) => {
      const wanted = { ...question, stop_sequences: ["nothing", "2"] };
      const whole = (await post(PATH, wanted)).body;
      const { delta } = eventsOf((await post(PATH, { ...wanted, stream: true })).body).at(-2);
      const isNamed = ({ stop_reason: reason, stop_sequence: text }: Json) =>
        reason === "stop_sequence" && text === "2";
      return isNamed(whole) && isNamed(delta) && whole.content[0].text === "1";
    },
  ],
  [
    "the schemas of output_config and of output_format are obeyed",
    async (post) => {
      const schema = { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] };
      const format = { type: "json_schema", schema };
      for (const fields of [{ output_config: { format } }, { output_format: format }]) {
        const { body } = await post(PATH, { ...question, ...fields, max_tokens: 64 });
        if (JSON.parse(body.content[0].text).city !== "Oslo") return false;
      }
      return true;
    },
  ],
  [
    "a text document is read, and a server tool is refused in words",
    async (post) => {
      const document = { type: "document", title: "Sums", source: { type: "text", data: "1 + 1 = 2" } };
      const messages = [{ role: "user", content: [document, { type: "text", text: "What is 7 + 5?" }] }];
      const tools = [{ type: "web_search_20250305", name: "web_search" }];
      const refused = await post(PATH, { ...question, tools });
      const isRefused = refused.status === 400 && refused.body.error.message.includes("runs no tools of its own");
      return isRefused && (await post(PATH, { ...question, messages })).status === 200;
    },
  ],
  [
    "a required tool, whole and streamed",
    async (post) => {
      const wanted = { ...question, max_tokens: 64, tools: [TOOL], tool_choice: { type: "any" } };
      const whole = (await post(PATH, wanted)).body;
      const events = eventsOf((await post(PATH, { ...wanted, stream: true })).body);
      const pieces = events.map(({ delta }) => delta?.partial_json ?? "").join("");
      const [call] = whole.content;
      return call.input.city === "Oslo" && whole.stop_reason === "tool_use" && JSON.parse(pieces).city === "Oslo";
    },
  ],
  [
    "the result of a tool, and the start of the answer",
    ok(PATH, {
      ...question,
      tools: [TOOL],
      messages: [
        ...USER,
        { role: "assistant", content: [{ type: "tool_use", id: "t", name: "get_weather", input: { city: "Oslo" } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "rain" }] },
        { role: "assistant", content: "It" },
      ],
    }),
  ],
  [
    "a failed tool is known to the model, and fields without effect are named",
    async (post) => {
      const count = async (is_error: boolean) => {
        const result = { type: "tool_result", tool_use_id: "t", content: "rain", is_error, cache_control: {} };
        const call = { type: "tool_use", id: "t", name: "get_weather", input: {} };
        const messages = [...USER, { role: "assistant", content: [call] }, { role: "user", content: [result] }];
        return await post(PATH, { ...question, messages, thinking: { type: "enabled", budget_tokens: 1024 } });
      };
      const [good, failed] = [await count(false), await count(true)];
      const warning = good.headers.get("warning") ?? "";
      const isNamed = ["/messages/2/content/0/cache_control", "/thinking/budget_tokens"].every((field) =>
        warning.includes(field),
      );
      return isNamed && promptOf(failed.body.usage) > promptOf(good.body.usage);
    },
  ],
  [
    "a bad message is refused in the format of Anthropic",
    async (post) => {
      const { status, body } = await post(PATH, { ...question, max_tokens: undefined });
      return status === 400 && body.type === "error" && body.error.type === "invalid_request_error";
    },
  ],
  [
    "an image is refused",
    async (post) => {
      const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "" } };
      return (await post(PATH, { ...question, messages: [{ role: "user", content: [image] }] })).status === 400;
    },
  ],
  [
    "an unknown model is 404",
    async (post) => {
      const { status, body } = await post(PATH, { ...question, model: "claude" });
      return status === 404 && body.error.type === "not_found_error";
    },
  ],
];

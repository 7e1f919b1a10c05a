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
      return counted > 3 && counted === (await post(PATH, question)).body.usage.input_tokens;
    },
  ],
  [
    "a streamed message",
    ok(PATH, { ...question, stream: true, system: [{ type: "text", text: "Be brief." }] }, (text) => {
      const events = eventsOf(text);
      const order =
        "message_start,content_block_start,content_block_delta,content_block_stop,message_delta,message_stop";
      return types(events).join() === order && events.at(-2).usage.input_tokens > 0;
    }),
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
      return isNamed && failed.body.usage.input_tokens > good.body.usage.input_tokens;
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

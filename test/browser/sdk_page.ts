/** The script of a page that talks to the server with the official SDKs. */
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const request = { model: "demo", max_tokens: 8, temperature: 0 };
const messages = [{ role: "user" as const, content: "What is 7 + 5?" }];

/** Returns what the SDKs got, in words. */
async function ask(url: string, apiKey: string): Promise<unknown[]> {
  const options = { apiKey, dangerouslyAllowBrowser: true, maxRetries: 0 };
  const openai = new OpenAI({ ...options, baseURL: `${url}/v1` });
  const anthropic = new Anthropic({ ...options, baseURL: url });
  const chat = await openai.chat.completions.create({ ...request, messages });
  let streamed = "";
  for await (const part of openai.chat.completions.stream({ ...request, messages }))
    streamed += part.choices[0]?.delta.content ?? "";
  const message = await anthropic.messages.create({ ...request, messages });
  const [block] = message.content;
  const told = await anthropic.messages.stream({ ...request, messages }).finalText();
  const [model] = (await anthropic.models.list()).data;
  const files = (await anthropic.beta.files.list()).data.length;
  const said = block?.type === "text" ? block.text : "";
  return [chat.choices[0]?.message.content, streamed, said, typeof message._request_id, told, model?.id, files];
}

Object.assign(globalThis, { ask });

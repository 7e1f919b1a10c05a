/** Messages of a server of the Model Context Protocol. Every part has a limit. */
import { z } from "zod";
import { opaque, outside, table } from "../../lib/json/outside.ts";
import { later } from "../../lib/schema.ts";
import { KIB } from "../../lib/units.ts";

export const MESSAGE_BYTES = 256 * KIB;
export const MAX_TOOLS = 500; // of one server
const MAX_PARTS = 1_000; // of one result

const Id = z.union([z.string().max(200), z.int()]);
const Text = z.string().max(MESSAGE_BYTES);
const Name = z.string().max(1_000);

/** A request, a notification or an answer of JSON-RPC. */
export const MESSAGE = outside(
  "the message of the MCP server",
  later(() =>
    z.object({
      jsonrpc: z.literal("2.0"),
      id: Id.nullish(),
      method: Name.optional(),
      params: opaque("PROGRESS for notifications of progress; others are not read").optional(),
      result: opaque("INITIALIZED, TOOLS or RESULT, by the request").optional(),
      error: z.object({ code: z.number(), message: Text }).optional(),
    }),
  ),
  { mostBytes: MESSAGE_BYTES },
);
export type Message = z.output<typeof MESSAGE.schema>;

export const PROGRESS = outside(
  "the progress of the MCP server",
  later(() => z.object({ progressToken: Id })),
);

export const INITIALIZED = outside(
  "the MCP server's answer to initialize",
  later(() =>
    z.object({
      protocolVersion: z.string().max(40),
      capabilities: z.object({ tools: table(opaque("nothing: the tools are listed"), { most: 100 }).optional() }),
    }),
  ),
);

export const TOOLS = outside(
  "the MCP server's list of tools",
  later(() =>
    z.object({
      tools: z
        .array(
          z.object({
            name: z.string().min(1).max(128),
            description: Text.nullish(),
            inputSchema: table(opaque("inputSchemaOf, and the model's grammar"), { most: 1_000, key: 1_000 }),
            annotations: z.object({ readOnlyHint: z.boolean().nullish() }).nullish(),
          }),
        )
        .max(MAX_TOOLS),
      nextCursor: z.string().max(10_000).nullish(),
    }),
  ),
);

/** A part of a result is a text, a picture, a sound, or a resource or a link to one. */
const Part = later(() =>
  z.object({
    type: Name,
    text: Text.optional(),
    mimeType: Name.nullish(),
    uri: Name.optional(),
    resource: z.object({ uri: Name, text: Text.optional() }).optional(),
  }),
);

export const RESULT = outside(
  "the MCP server's result",
  later(() =>
    z.object({
      content: z.array(Part).max(MAX_PARTS).default([]),
      structuredContent: opaque("textOf, which writes it as JSON").optional(),
      isError: z.boolean().nullish(),
    }),
  ),
);
export type Result = z.output<typeof RESULT.schema>;

/** Some routes answer clients of two formats: OpenAI's, and Anthropic's by its header. */
import { z } from "zod";
import { later } from "../../lib/schema.ts";
import type { PageQuery } from "./pagination.ts";

/** Clients of Anthropic send the version of the interface with every request. */
export const speaksAnthropic = ({ headers }: Request): boolean =>
  headers.has("anthropic-version") || headers.has("anthropic-beta");

/** Positions in a list, as clients of Anthropic send them. */
export const ANTHROPIC_POSITION = {
  after_id: z.string().optional().describe("`after` in the format of Anthropic"),
  page: z.string().optional().describe("The same for lists of files"),
  before_id: z
    .undefined({ error: "lists go forward from the newest item: use after_id" })
    .optional()
    .describe("Not supported"),
};
type Positioned = PageQuery & { after_id?: string | undefined; page?: string | undefined };

export const forwardOf = ({ limit, after, after_id, page }: Positioned): PageQuery => ({
  limit,
  after: after ?? after_id ?? page,
});

export const anthropicListOf = <T extends z.ZodType>(item: T, id: string) =>
  later(() =>
    z
      .object({
        data: z.array(item),
        has_more: z.boolean(),
        first_id: z.string().nullable(),
        last_id: z.string().nullable(),
        next_page: z.string().nullable(),
      })
      .meta({ id }),
  );

type Listed<T> = { data: T[]; has_more: boolean };

export const anthropicList = <T extends { id: string }>({ data, has_more }: Listed<T>) => {
  const last = data.at(-1)?.id ?? null;
  return { data, has_more, first_id: data[0]?.id ?? null, last_id: last, next_page: has_more ? last : null };
};

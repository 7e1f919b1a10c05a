import type { z } from "zod";
import { warn } from "./warnings.ts";

type Question = { request: Request; query: object };

/**
 * For a route with a query: `...asks(PageQuery)`. A value is the text that the caller wrote: plain Elysia would split
 * it at commas and read brackets as JSON. A name that is given twice becomes a list, which no schema here takes.
 * The `warning` header of the answer names what the schema does not have.
 */
export const asks = <S extends z.ZodType>(query: S) => ({
  query,
  transform: (question: Question) => {
    const given = textsOf(question.request.url);
    question.query = given;
    const { shape } = query as { shape?: object };
    for (const name in given)
      if (shape && !Object.hasOwn(shape, name)) warn(question.request, `unknown query parameter ${name}`);
  },
});

function textsOf(url: string): Record<string, string | string[]> {
  const start = url.indexOf("?");
  if (start < 0) return {};
  const given = new URLSearchParams(url.slice(start));
  return Object.fromEntries(
    [...new Set(given.keys())].map((name) => {
      const [first = "", ...more] = given.getAll(name);
      return [name, more.length === 0 ? first : [first, ...more]];
    }),
  );
}

import type { z } from "zod";

type Question = { request: Request; query: object };

/**
 * For a route with a query: `...asks(PageQuery)`. A value is the text the caller wrote, whatever is in it: Elysia
 * alone would split it at commas and read it as JSON where it stands in brackets. A name given twice is a list, which
 * no schema of ours takes.
 */
export const asks = <S extends z.ZodType>(query: S) => ({
  query,
  transform: (question: Question) => {
    question.query = textsOf(question.request.url);
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

import { expect, test } from "bun:test";
import { SourceError } from "../types.ts";
import { type Dialect, oneStatement } from "./statement.ts";

const refusal = (text: string, dialect: Dialect) => {
  try {
    return `accepted: ${oneStatement(text, dialect)}`;
  } catch (error) {
    expect(error).toBeInstanceOf(SourceError);
    expect((error as SourceError).param).toBe("/db_query");
    return (error as SourceError).message;
  }
};

const ONE: readonly [Dialect, string, string][] = [
  ["postgres", "SELECT 1;", "SELECT 1"],
  ["postgres", " select ';' ; -- that is all;\n", "select ';'"],
  ["postgres", "SELECT E'\\';' , 'a'';', $$;$$, $x$ ; $$ ; $x$, \"a;b\"", ""],
  ["postgres", "/* a /* nested; */ ; */ SELECT 1 -- ;", ""],
  ["postgres", "((SELECT 1) UNION (SELECT 2));;", "((SELECT 1) UNION (SELECT 2))"],
  ["postgres", "WITH a AS (SELECT 1) SELECT * FROM a", ""],
  ["postgres", "VALUES (1), (2)", ""],
  ["postgres", "TABLE rows", ""],
  ["mysql", "SELECT 'a\\';', \"b;\", `c;` # end;\n FROM t", ""],
  ["mysql", "SELECT 5--3 -- ;\n", ""],
  ["snowflake", "SELECT '\\';', $$ ; $$ // ;\n FROM t;", "SELECT '\\';', $$ ; $$ // ;\n FROM t"],
  ["bigquery", "SELECT '''a';''', \"\"\";\"\"\", r'\\d;', `p.d;t` # ;\n", ""],
  ["bigquery", "FROM t |> WHERE x > 1", ""],
];
test.each(ONE)("%s takes %s", (dialect, text, statement) => {
  expect(oneStatement(text, dialect)).toBe(statement === "" ? text.trim() : statement);
});

test.each([
  ["postgres", "SELECT 1; DROP TABLE t", "more than one statement"],
  ["postgres", "SELECT 1; 'x'", "more than one statement"],
  ["postgres", "SELECT '\\'; DROP TABLE t; --'", "more than one statement"], // no escapes in a plain string
  ["mysql", "SELECT '\\''; DROP TABLE t", "more than one statement"],
  ["mysql", "SELECT 1 --;x", "more than one statement"], // no comment without a blank
  ["bigquery", "SELECT 1; SELECT 2", "more than one statement"],
  ["snowflake", "SELECT $$a$$; CALL p()", "more than one statement"],
  ["postgres", "DELETE FROM t", "begin with SELECT"],
  ["mysql", "-- SELECT\nUPDATE t SET a = 1", "begin with SELECT"],
  ["postgres", "/* SELECT */", "begin with SELECT"],
  ["postgres", ";", "begin with SELECT"],
  ["postgres", "'select'", "begin with SELECT"],
  ["snowflake", "CALL wipe()", "begin with SELECT"],
  ["postgres", "SELECT 'open", "never closed"],
  ["postgres", "SELECT 1 /* open /* */", "never closed"],
] as const)("%s refuses %s", (dialect, text, why) => {
  expect(refusal(text, dialect)).toContain(why);
});

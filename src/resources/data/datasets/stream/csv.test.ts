import { afterEach, beforeEach, expect, test } from "bun:test";
import { datasetCalls } from "../../../../../test/datasets_kit.ts";
import { type TestApp, testApp } from "../../../../../test/harness.ts";

let app: TestApp;
beforeEach(() => {
  app = testApp();
});
afterEach(() => app.close().then(app.remove));
const { create, append, exported } = datasetCalls(() => app);

test("S9: a dataset as CSV for spreadsheets has no formula, and as plain CSV every value as it was sent", async () => {
  const id = await create();
  const rows = [{ prompt: "=1+1", "@name": "-2+3", "b;c": -5 }, { prompt: '+HYPERLINK("x")' }];
  await append(id, rows);
  const safe = `"prompt","'@name","b;c"\r\n"'=1+1","'-2+3","-5"\r\n"'+HYPERLINK(""x"")","",""\r\n`;
  expect(await exported(id, "?format=spreadsheet")).toBe(safe);
  const exact = 'prompt,@name,b;c\r\n=1+1,-2+3,-5\r\n"+HYPERLINK(""x"")",,\r\n';
  expect(await exported(id, "?format=csv")).toBe(exact);
  const { headers } = await app.call("GET", `/v1/datasets/${id}/rows/export?format=spreadsheet`);
  expect(headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect(headers.get("content-disposition")).toEndWith('.csv"');
});

/** The floor: Bun.serve answering the same bytes, with no key, no database and no route. argv: body file. */
const body = await Bun.file(process.argv[2] as string).text();
const headers = { "content-type": "application/json" };
const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(body, { headers }) });
console.log(server.url.origin);

export {};

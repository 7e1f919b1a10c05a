/** Every answer of every listener says it: a browser must not guess a type, and run text of a user as a page. */
export function noSniff(response: Response): Response {
  response.headers.set("x-content-type-options", "nosniff");
  return response;
}

import { stateOf } from "./request_state.ts";

const MOST = 10;
const LONGEST = 120;

/** Notes something that the server ignored in a request. The answer names it in its `warning` header. */
export function warn(request: Request, text: string) {
  const { warnings } = stateOf(request);
  const plain = text.replaceAll(/[^ -~]|["\\]/g, "_"); // a header takes plain text; the rest is the caller's own
  if (warnings.length < MOST) warnings.push(plain.slice(0, LONGEST));
  else if (warnings.length === MOST) warnings.push("and more");
}

/** RFC 9111 has retired `Warning` for caches. 299 is the code for any other persistent warning. */
export function showWarnings(request: Request, response: Response) {
  const { warnings } = stateOf(request);
  if (warnings.length > 0) response.headers.set("warning", `299 verk "ignored: ${warnings.join("; ")}"`);
}

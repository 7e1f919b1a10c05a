/** Calls of the public API with the cookie of the session. */
import { csrfToken, session } from "./session.ts";

/** An answer of the server that is no success, or no answer at all (`status` 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string | null,
    message: string,
    /** JSON pointer to the field that is wrong. */
    readonly param: string | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export type CallOptions = {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Sent as JSON, or as it is if it is a form, a file or text. */
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal | undefined;
};

/** The answer's JSON. Throws `ApiError`. An answer of 401 ends the session: the shell shows the sign-in page. */
export async function api<T>(path: string, options: CallOptions = {}): Promise<T> {
  const response = await send(path, options);
  try {
    return (await response.json()) as T;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, null, "The connection to the server broke before its answer was complete. Try again.");
  }
}

/** The answer itself, for streams and downloads. */
export async function send(
  path: string,
  { method = "GET", body, headers, signal }: CallOptions = {},
): Promise<Response> {
  const csrf = csrfToken();
  const isRaw = body instanceof FormData || body instanceof Blob || typeof body === "string";
  const request: RequestInit = {
    method,
    credentials: "same-origin",
    headers: {
      ...(body === undefined || isRaw ? {} : { "content-type": "application/json" }),
      ...(csrf === undefined || method === "GET" ? {} : { "x-verk-csrf": csrf }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: isRaw ? (body as BodyInit) : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  };
  const response = await fetch(path, request).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, null, "The server does not answer. Check that it runs, then try again.");
  });
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.status === 401 && session.value.is === "in") session.value = { is: "out", why: error.message };
  throw error;
}

type Envelope = {
  error?: { code?: string | null; message?: string; param?: string | null } | string;
  message?: string;
};

/** Both forms of the server: the envelope of the platform, and the flat one of detection. */
async function errorOf(response: Response): Promise<ApiError> {
  const body = (await response.json().catch(() => ({}))) as Envelope;
  const { error } = body;
  if (typeof error === "object")
    return new ApiError(response.status, error.code ?? null, error.message ?? "", error.param ?? null);
  return new ApiError(response.status, null, body.message ?? error ?? `The server answered ${response.status}.`);
}

/**
 * Every error a caller may see: code → status and type. Codes are API: add freely, never rename.
 * `param` is a JSON pointer into the body, or the name of a query or path parameter.
 */
export const ERRORS = {
  invalid_json: [400, "invalid_request_error"],
  invalid_cursor: [400, "invalid_request_error"],
  invalid_request: [400, "invalid_request_error"],
  unsupported_state: [400, "invalid_request_error"],
  path_outside_workspace: [400, "invalid_request_error"],
  sessions_disabled: [400, "invalid_request_error"],
  url_not_allowed: [400, "invalid_request_error"],
  name_taken: [400, "invalid_request_error"],
  dataset_not_a_stream: [400, "invalid_request_error"],
  source_unusable: [400, "invalid_request_error"],
  upload_incomplete: [400, "invalid_request_error"],
  context_length_exceeded: [400, "invalid_request_error"],
  invalid_image: [400, "invalid_request_error"],
  rollout_ended: [400, "invalid_request_error"],
  unknown_model: [400, "invalid_request_error"],
  missing_api_key: [401, "authentication_error"],
  invalid_api_key: [401, "authentication_error"],
  revoked_api_key: [401, "authentication_error"],
  invalid_credentials: [401, "authentication_error"],
  second_factor_required: [401, "authentication_error"],
  insufficient_credits: [402, "billing_error"],
  budget_exceeded: [402, "billing_error"],
  missing_scope: [403, "permission_error"],
  csrf_failed: [403, "permission_error"],
  invalid_signature: [403, "permission_error"],
  resource_not_found: [404, "not_found_error"],
  route_not_found: [404, "not_found_error"],
  method_not_allowed: [405, "invalid_request_error"],
  session_not_ready: [409, "conflict_error"],
  head_moved: [409, "conflict_error"],
  idempotency_mismatch: [409, "conflict_error"],
  upload_used: [409, "conflict_error"],
  payload_too_large: [413, "payload_too_large"],
  image_too_large: [413, "payload_too_large"],
  unsupported_format: [415, "invalid_request_error"],
  unsupported_media_type: [415, "invalid_request_error"],
  range_not_satisfiable: [416, "invalid_request_error"],
  schema: [422, "validation_error"],
  sha256_mismatch: [422, "validation_error"],
  quota_exceeded: [422, "validation_error"],
  reward_invalid: [422, "validation_error"],
  rate_limited: [429, "rate_limit_error"],
  queue_full: [429, "rate_limit_error"],
  monthly_quota_exceeded: [429, "rate_limit_error"],
  internal: [500, "api_error"],
  worker_failed: [502, "api_error"],
  fetch_failed: [502, "api_error"],
  deployment_waking: [503, "service_unavailable"],
  region_unreachable: [503, "service_unavailable"],
  no_capacity: [503, "service_unavailable"],
  all_models_failed: [503, "service_unavailable"],
  detector_unavailable: [503, "service_unavailable"],
  sandbox_unavailable: [503, "service_unavailable"],
  storage_unavailable: [503, "service_unavailable"],
  shutting_down: [503, "service_unavailable"],
} as const satisfies Record<string, readonly [status: number, type: string]>;

export type ErrorCode = keyof typeof ERRORS;

type Extra = {
  param?: string;
  retryAfterSeconds?: number;
  headers?: Record<string, string>;
  more?: object;
  cause?: unknown;
};

/** An error a caller may see. Anything else that escapes a handler is a bug and becomes `internal`. */
export class AppError extends Error {
  readonly param: string | null;
  readonly headers: Record<string, string>;
  /** Further fields of the answer's body, in the interfaces of detection and of inference. */
  readonly more: object;

  constructor(
    readonly code: ErrorCode,
    message: string,
    extra: Extra = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = "AppError";
    this.param = extra.param ?? null;
    this.more = extra.more ?? {};
    this.headers = {
      ...(extra.retryAfterSeconds === undefined ? {} : { "retry-after": String(Math.ceil(extra.retryAfterSeconds)) }),
      ...extra.headers,
    };
  }
  get status() {
    return ERRORS[this.code][0];
  }
  get type() {
    return ERRORS[this.code][1];
  }
}

/** The body of an error answer. */
export const errorBody = ({ type, code, message, param, more }: AppError) => ({
  error: { type, code, message, param, ...more },
});

/** A mistake of the person at the keyboard (flags, config, data directory): printed without a stack, exits `exitCode`. */
export class UsageError extends Error {
  constructor(
    message: string,
    readonly exitCode = 2,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "UsageError";
  }
}

/* SPDX-License-Identifier: GPL-2.0 */
/* What table_ops.h requires, for an algorithm whose flows share no state (compare rtcp_ops.h). */
#ifndef CCATUNE_NO_CLIENT_H
#define CCATUNE_NO_CLIENT_H

#define alg_waiting_bytes(sk) 0
#define alg_join(f, sk, now_us) do { } while (0)
#define alg_lock(f, recording, anew) do { } while (0)
#define alg_unlock(f) do { } while (0)
#define alg_renew(f, recording, now_us) do { } while (0)
#define alg_before_ack(f, recording, now_us) do { } while (0)
#define alg_update_share(f, waiting_bytes) do { } while (0)
#define alg_moves(f, now_us) false
#define alg_count(f, sk) do { } while (0)
#define alg_report_counts(f) do { } while (0)
#define alg_part(f) do { } while (0)
#define alg_leave(f, sk) do { } while (0)
#define alg_is_inactive(f) false

#define alg_put_ack(r, waiting_bytes) do { } while (0)
#define alg_put_states(r, f) do { } while (0)
#define alg_put_recall(r, f) ens_flow_put_outcome(r, alg_ens(f), alg_set(f), CCATUNE_ID)

#endif /* CCATUNE_NO_CLIENT_H */

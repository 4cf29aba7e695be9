// MLDA: Multicast enhanced Loss-Delay based Adaptation (Sisalem and Wolisz, IWQoS 2000), with LDA+
// at the receivers. Notes: docs/protocols/mlda.md.
#pragma once

#include "protocols/core/registry.h"

namespace tiercast::mlda {

Scheme scheme();

}  // namespace tiercast::mlda

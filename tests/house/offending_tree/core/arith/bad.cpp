#include "core/relay/expr.h"  // arith may not see relay

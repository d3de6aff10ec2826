// SPDX-License-Identifier: Apache-2.0
// Shapes and dtypes of host code.
#ifndef GAF_TWIN_TILING_SHAPE_H
#define GAF_TWIN_TILING_SHAPE_H

#include <stdint.h>

#include <initializer_list>
#include <vector>

namespace ge {

class Shape {
public:
    Shape() {}
    explicit Shape(const std::vector<int64_t>& dims) : dims_(dims) {}
    Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
    size_t GetDimNum() const { return dims_.size(); }
    int64_t GetDim(size_t i) const { return i < dims_.size() ? dims_[i] : 0; }
    void SetDim(size_t i, int64_t value) { dims_.at(i) = value; }
    std::vector<int64_t> GetDims() const { return dims_; }
    int64_t GetShapeSize() const
    {
        int64_t n = dims_.empty() ? 0 : 1;
        for (int64_t d : dims_) {
            n *= d;
        }
        return n;
    }

private:
    std::vector<int64_t> dims_;
};

enum DataType {
    DT_FLOAT = 0,
    DT_FLOAT16 = 1,
    DT_INT8 = 2,
    DT_INT32 = 3,
    DT_UINT8 = 4,
    DT_INT16 = 6,
    DT_UINT16 = 7,
    DT_UINT32 = 8,
    DT_INT64 = 9,
    DT_UINT64 = 10,
    DT_DOUBLE = 11,
    DT_BOOL = 12,
    DT_BF16 = 27,
    DT_INT4 = 29,
    DT_UNDEFINED = 28
};

}  // namespace ge

namespace AscendC {
using TensorShape = ge::Shape;
using TensorDataType = ge::DataType;
}  // namespace AscendC

#endif  // GAF_TWIN_TILING_SHAPE_H
